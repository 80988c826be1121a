import { shellQuoted as quoted } from '../support/text.ts';
import { spellings, type Flag, type Place } from './places.ts';
import { valueCases } from './value-cases.ts';

/**
 * For bash 3.2 (macOS) and later. A script that knows everything answers at once; one that asks the program at each press of the key
 * would first load all of it.
 */
export function bashScript(places: readonly Place[]): string {
  const paths = places.filter(({ path }) => path !== '').map(({ path }) => quoted(path));
  return `# bash completion for pushpacer: source <(pushpacer completion bash)
_pushpacer() {
  local at='' cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD-1]} words='' IFS=$' \\t\\n' i
  # bash makes three words of --file=x
  if [[ $cur == = ]]; then cur=''; elif [[ $prev == = ]]; then prev=\${COMP_WORDS[COMP_CWORD-2]}; fi
  for ((i = 1; i < COMP_CWORD; i++)); do
    case "\${at:+$at }\${COMP_WORDS[i]}" in
      ${paths.join(' | ')}) at="\${at:+$at }\${COMP_WORDS[i]}" ;;
    esac
  done
  COMPREPLY=()
  case "$at $prev" in
${places.flatMap((place) => valueCases(place, answerOf, { open: '', or: ' | ' })).join('\n')}
  esac
  case "$at" in
${places.map(wordCase).join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
}
complete -F _pushpacer pushpacer
`;
}

function answerOf({ value }: Flag): string | undefined {
  if (value === 'none') return undefined;
  if (value === 'text') return ':';
  if (value === 'file') {
    return `IFS=$'\\n'; COMPREPLY=($(compgen -f -- "$cur")); compopt -o filenames 2>/dev/null`;
  }
  return `COMPREPLY=($(compgen -W ${quoted(value.join(' '))} -- "$cur"))`;
}

function wordCase({ path, words, flags }: Place): string {
  const all = [...words.map(({ word }) => word), ...flags.flatMap(spellings)];
  return `    ${quoted(path)}) words=${quoted(all.join(' '))} ;;`;
}
