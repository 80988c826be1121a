import { shellQuoted as quoted } from '../support/text.ts';
import { spellings, type Flag, type Place } from './places.ts';
import { valueCases } from './value-cases.ts';

/** For zsh 5. */
export function zshScript(places: readonly Place[]): string {
  const paths = places.filter(({ path }) => path !== '').map(({ path }) => quoted(path));
  return `#compdef pushpacer
# zsh completion for pushpacer: source <(pushpacer completion zsh)
_pushpacer() {
  local at='' word prev=\${words[CURRENT-1]}
  local -a offered
  for word in \${words[2,CURRENT-1]}; do
    case "\${at:+$at }$word" in
      (${paths.join('|')}) at="\${at:+$at }$word" ;;
    esac
  done
  if [[ $PREFIX == --*=* ]]; then
    prev=\${PREFIX%%=*}
    compset -P '*='
  fi
  case "$at $prev" in
${places.flatMap((place) => valueCases(place, answerOf, { open: '(', or: '|' })).join('\n')}
  esac
  case "$at" in
${places.map(wordCase).join('\n')}
  esac
}
if [[ $funcstack[1] == _pushpacer ]]; then _pushpacer "$@"; else compdef _pushpacer pushpacer; fi
`;
}

function answerOf({ value, does }: Flag): string | undefined {
  if (value === 'none') return undefined;
  if (value === 'text') return `_message ${quoted(does)}`;
  if (value === 'file') return '_files';
  return `compadd -- ${value.map(quoted).join(' ')}`;
}

function wordCase({ path, words, flags }: Place): string {
  const offered = words.map(({ word, does }) => described(word, does));
  const options = flags.flatMap((flag) => spellings(flag).map((one) => described(one, flag.does)));
  const lines = [
    ...(offered.length > 0 ? [`offered=(${offered.join(' ')}); _describe -V command offered`] : []),
    `offered=(${options.join(' ')}); _describe -V -o option offered`,
  ];
  return `    (${quoted(path)}) ${lines.join('; ')} ;;`;
}

/** `word:what it does`, where a colon of the word itself would end it. */
function described(word: string, does: string): string {
  return quoted(`${word.replaceAll(':', '\\:')}:${does}`);
}
