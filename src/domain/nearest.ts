/**
 * The known name that `name` was probably meant to be: the one with the fewest typing mistakes, two at most, and one at most in a
 * name of up to five letters. Undefined if none is that near. Upper and lower case count as equal.
 */
export function nearest(name: string, known: Iterable<string>): string | undefined {
  const given = name.toLowerCase();
  let best: { readonly candidate: string; readonly mistakes: number } | undefined;
  for (const candidate of known) {
    const most = Math.min(name.length, candidate.length) > 5 ? 2 : 1;
    if (Math.abs(name.length - candidate.length) > most) continue; // a bad job may have thousands of long names
    const mistakes = typingMistakes(given, candidate.toLowerCase());
    if (mistakes <= most && mistakes < (best?.mistakes ?? Infinity)) best = { candidate, mistakes };
  }
  return best?.candidate;
}

/** Shorter names are in many others by chance. */
const LEAST_SHARED = 3;

/**
 * The known option that an unknown one was probably meant to be: a near one, otherwise the shortest that has it in its name, or that
 * is in its name (`url` → `redisUrl`, `queuePrefix` → `prefix`). Undefined if there is none.
 */
export function meantOption(name: string, known: readonly string[]): string | undefined {
  const given = name.toLowerCase();
  const kin = known.filter((each) => {
    const [short = '', long = ''] = [given, each.toLowerCase()].toSorted((a, b) => a.length - b.length);
    return short.length >= LEAST_SHARED && long.includes(short);
  });
  return nearest(name, known) ?? kin.toSorted((a, b) => a.length - b.length)[0];
}

/** How many letters are missing, too many, wrong, or swapped with the next one (the optimal string alignment distance). */
export function typingMistakes(a: string, b: string): number {
  let [before, previous]: [number[], number[]] = [[], Array.from({ length: b.length + 1 }, (_, at) => at)];
  for (let row = 1; row <= a.length; row++) {
    const current = [row];
    for (let at = 1; at <= b.length; at++) {
      const changed = (previous[at - 1] ?? 0) + (a[row - 1] === b[at - 1] ? 0 : 1);
      const isSwapped = row > 1 && at > 1 && a[row - 1] === b[at - 2] && a[row - 2] === b[at - 1];
      const swapped = isSwapped ? (before[at - 2] ?? 0) + 1 : Infinity;
      current.push(Math.min((previous[at] ?? 0) + 1, (current[at - 1] ?? 0) + 1, changed, swapped));
    }
    [before, previous] = [previous, current];
  }
  return previous[b.length] ?? 0;
}
