import type { Verb } from '../../src/dead-letters/runs.ts';
import type { Choice, DeadLetterFilter } from '../../src/dead-letters/take.ts';
import { faultOf, InputError } from '../../src/domain/faults.ts';
import { askToTake, choiceFields, FILTER, filterFrom, TAKE, type Wish } from '../../src/operations/taking.ts';
import { givenIn } from '../fields.ts';
import { counted } from '../layout.ts';

/**
 * How a query or a form names the dead letters that are meant: by the names of the commands' flags (`reason`, `recipient`, …),
 * by `pick` for each single one, or by `all`. `verb` says what to do with them.
 */

/** Fields that only the pages read. */
const OF_THE_PAGE = ['verb', 'count', 'typed'];

/** @param now epoch milliseconds, for times such as `2h`. Throws InputError. */
export function filterIn(params: URLSearchParams, now: number): DeadLetterFilter {
  const known = [...params].filter(([name]) => name in FILTER.shape); // links may bring other names
  return filterFrom(givenIn({ fields: FILTER }, new URLSearchParams(known)), now);
}

/** @param now epoch milliseconds on Redis's clock. Throws InputError. */
export function wishIn(params: URLSearchParams, now: number): Wish {
  const verb = params.get('verb');
  if (verb !== 'replay' && verb !== 'discard') {
    throw new InputError('what to do', [faultOf('verb', 'replay or discard', verb)]);
  }
  const given = givenIn({ fields: TAKE }, withoutThose(params));
  if (Object.keys(given).every((name) => name === 'rate' || name === 'before')) {
    throw new InputError('nothing is chosen', [
      faultOf('which', 'at least one dead letter, a filter, or all', undefined),
    ]);
  }
  return askToTake(verb, given, now);
}

function withoutThose(params: URLSearchParams): URLSearchParams {
  return new URLSearchParams([...params].filter(([name]) => !OF_THE_PAGE.includes(name)));
}

/** What to do with which dead letters, as fields of a form or a query, without the rate. */
export function fieldsOfWish({ verb, which }: Pick<Wish, 'verb' | 'which'>): [string, string][] {
  const fields = Object.entries(choiceFields(which)).flatMap(([name, value]) =>
    [value].flat().map((each): [string, string] => [name, String(each)]),
  );
  return [['verb', verb], ...fields];
}

export function previewPath(wish: { readonly verb: Verb; readonly which: Choice['which'] }): string {
  return `/dead-letters/preview?${new URLSearchParams(fieldsOfWish(wish)).toString()}`;
}

/** `3 dead letters` */
export function deadLettersText(number: number): string {
  return counted(number, 'dead letter');
}
