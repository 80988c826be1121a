const UNIT_MS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;
type Unit = keyof typeof UNIT_MS;

/** What a duration looks like, for error messages. */
export const DURATION_FORMAT = 'a duration such as 250ms, 3s, 1m, 2h or 1d';

/** `"3s"` → `3000` (milliseconds), `"0"` → `0`; `undefined` if the text is no duration. */
export function parseDuration(text: string): number | undefined {
  if (text === '0') return 0;
  const match = /^(\d{1,9})(ms|s|m|h|d)$/.exec(text);
  if (!match) return undefined;
  return Number(match[1]) * UNIT_MS[match[2] as Unit];
}

/** `3000` → `"3s"`: in the largest unit that gives a whole number. */
export function formatDuration(ms: number): string {
  if (ms === 0) return '0';
  const units = Object.entries(UNIT_MS).reverse();
  const [unit, size] = units.find(([, unitMs]) => ms % unitMs === 0) ?? ['ms', 1];
  return `${ms / size}${unit}`;
}
