import type { Flag, Place } from './places.ts';

/** For fish 3. */
export function fishScript(places: readonly Place[]): string {
  const paths = places.filter(({ path }) => path !== '').map(({ path }) => quoted(path));
  return `# fish completion for pushpacer: pushpacer completion fish > ~/.config/fish/completions/pushpacer.fish
function __pushpacer_at
  set -l at
  for word in (commandline -opc)[2..-1]
    if contains -- (string join -- ' ' $at $word) ${paths.join(' ')}
      set at (string join -- ' ' $at $word)
    end
  end
  test "$at" = "$argv[1]"
end
complete -c pushpacer -f
${places.flatMap(linesOf).join('\n')}
`;
}

function linesOf({ path, words, flags }: Place): string[] {
  const here = `complete -c pushpacer -n ${quoted(`__pushpacer_at ${quoted(path)}`)}`;
  return [
    ...words.map(({ word, does }) => `${here} -a ${quoted(word)} -d ${quoted(does)}`),
    ...flags.map((flag) => `${here} ${flagWords(flag)} -d ${quoted(flag.does)}`),
  ];
}

/** `-l yes -s y`, `-l file -r -F` */
function flagWords({ long, short, value }: Flag): string {
  const names = [`-l ${long.slice(2)}`, ...(short === undefined ? [] : [`-s ${short.slice(1)}`])].join(' ');
  if (value === 'none') return names;
  if (value === 'file') return `${names} -r -F`;
  return value === 'text' ? `${names} -x` : `${names} -x -a ${quoted(value.join(' '))}`;
}

function quoted(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
