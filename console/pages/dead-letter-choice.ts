import { rateText, parseRate, REPLAYS_PER_SECOND } from '../../src/dead-letters/pace.ts';
import type { Verb } from '../../src/dead-letters/runs.ts';
import { isList, type Choice, type DeadLetterFilter } from '../../src/dead-letters/take.ts';
import { faultOf, InputError, printable, type Fault } from '../../src/domain/faults.ts';
import { PLATFORMS } from '../../src/notification/notification.ts';
import { DEAD_LETTER_REASONS } from '../../src/notification/outcome.ts';
import { INSTANT_FORMAT, parseDuration } from '../../src/domain/time.ts';
import { parseInstant } from '../../src/terminal/command.ts';
import { instant } from '../../src/terminal/text.ts';
import { count, counted } from '../layout.ts';

/**
 * How a query or a form says which dead letters are meant: by the names of the commands' flags (`reason`, `recipient`, …), by `pick` for
 * each single one, or by `all`.
 */

/** At least as many as a page of the list has. */
const MOST_PICKED = 200;
const TIME_FORMAT = `${INSTANT_FORMAT}, or a duration ago such as 2h`;
/** What is typed for the app that has no name. The flag of the commands is `--app ''`. */
const NO_APP = "''";

/** @param now epoch milliseconds, for times such as `2h`. Throws InputError. */
export function filterOf(params: URLSearchParams, now: number): DeadLetterFilter {
  const faults: Fault[] = [];
  const text = (name: string): string | undefined => params.get(name) ?? undefined;
  const oneOf = <T extends string>(name: string, allowed: readonly T[]): T | undefined => {
    const given = text(name);
    const found = allowed.find((each) => each === given);
    if (given !== undefined && found === undefined) faults.push(faultOf(name, allowed.join(', '), given));
    return found;
  };
  const time = (name: string): number | undefined => {
    const given = text(name);
    if (given === undefined) return undefined;
    const agoMs = parseDuration(given);
    const at = agoMs === undefined ? parseInstant(given) : now - agoMs;
    if (at === undefined) faults.push(faultOf(name, TIME_FORMAT, given));
    return at;
  };
  const [recipientId, app, category, id] = [text('recipient'), text('app'), text('category'), text('id')];
  const [reason, platform] = [oneOf('reason', DEAD_LETTER_REASONS), oneOf('platform', PLATFORMS)];
  const [sinceMs, untilMs] = [time('since'), time('until')];
  if (sinceMs !== undefined && untilMs !== undefined && sinceMs > untilMs) {
    faults.push(faultOf('since', `an instant before until, ${instant(untilMs)}`, instant(sinceMs)));
  }
  if (faults.length > 0) throw new InputError('the filter', faults);
  return {
    ...(reason !== undefined && { reason }),
    ...(recipientId !== undefined && { recipientId }),
    ...(platform !== undefined && { platform }),
    ...(app !== undefined && { app: app === NO_APP ? '' : app }),
    ...(category !== undefined && { category }),
    ...(id !== undefined && { id }),
    ...(sinceMs !== undefined && { sinceMs }),
    ...(untilMs !== undefined && { untilMs }),
  };
}

/** The same filter as a query, with fixed times. */
export function queryOf(filter: DeadLetterFilter): Record<string, string> {
  const { reason, recipientId, platform, app, category, id, sinceMs, untilMs } = filter;
  return {
    ...(reason !== undefined && { reason }),
    ...(recipientId !== undefined && { recipient: recipientId }),
    ...(platform !== undefined && { platform }),
    ...(app !== undefined && { app: app === '' ? NO_APP : app }),
    ...(category !== undefined && { category }),
    ...(id !== undefined && { id }),
    ...(sinceMs !== undefined && { since: new Date(sinceMs).toISOString() }),
    ...(untilMs !== undefined && { until: new Date(untilMs).toISOString() }),
  };
}

/** `reason rejected, since 2026-11-21T14:00:00Z` */
function filterText(filter: DeadLetterFilter): string {
  return Object.entries(queryOf(filter))
    .map(([name, value]) => `${name} ${value}`)
    .join(', ');
}

/** What is to be done with which dead letters. */
export interface Wish extends Choice {
  readonly verb: Verb;
  readonly perSecond: number;
}

/** @param now epoch milliseconds on Redis's clock. Throws InputError. */
export function wishOf(params: URLSearchParams, now: number): Wish {
  const which = params.has('pick') ? params.getAll('pick').map(pickOf) : filterOf(params, now);
  const isAll = !isList(which) && Object.keys(which).length === 0;
  const verb = params.get('verb');
  const rate = params.get('rate') ?? rateText(REPLAYS_PER_SECOND);
  const perSecond = parseRate(rate);
  const before = Number(params.get('before') ?? now);
  const faults = [
    ...(verb === 'replay' || verb === 'discard' ? [] : [faultOf('verb', 'replay or discard', verb)]),
    ...(perSecond === undefined ? [faultOf('rate', 'a rate such as 50/s, 30/m or 500/h, or off', rate)] : []),
    ...(Number.isFinite(before) ? [] : [faultOf('before', 'epoch milliseconds', params.get('before'))]),
    ...(isAll && !params.has('all') ? [faultOf('pick', 'at least one dead letter, a filter, or all', undefined)] : []),
    ...(isList(which) && which.length > MOST_PICKED ? [faultOf('pick', `${MOST_PICKED} at most`, which.length)] : []),
  ];
  if (faults.length > 0) throw new InputError('what to do', faults);
  // What comes after the look at it is not meant.
  return { verb: verb as Verb, perSecond: perSecond ?? 0, which, buriedUntilMs: Math.min(before, now) };
}

/** `0:msg-1` */
export function pickText({ shard, id }: { readonly shard: number; readonly id: string }): string {
  return `${shard}:${id}`;
}

function pickOf(text: string): { readonly shard: number; readonly id: string } {
  const [, shard, id] = /^(\d{1,4}):([^]+)$/.exec(text) ?? [];
  if (shard === undefined || id === undefined) {
    throw new InputError('what to do', [faultOf('pick', 'a shard and an id, such as 0:msg-1', text)]);
  }
  return { shard: Number(shard), id };
}

/** The wish as fields of a form or a query, without the rate. */
export function fieldsOf({ verb, which }: Pick<Wish, 'verb' | 'which'>): readonly [name: string, value: string][] {
  if (isList(which)) return [['verb', verb], ...which.map((each) => ['pick', pickText(each)] as [string, string])];
  const query = Object.entries(queryOf(which));
  return [['verb', verb], ...(query.length === 0 ? ([['all', 'yes']] as [string, string][]) : query)];
}

/** Where a wish is looked at before it is done. */
export function previewPath(wish: Pick<Wish, 'verb' | 'which'>): string {
  return `/dead-letters/preview?${new URLSearchParams(fieldsOf(wish)).toString()}`;
}

/** `all`, `msg-1`, `12 chosen ones`, `reason rejected` */
export function whichText(which: Choice['which']): string {
  if (!isList(which)) return printable(filterText(which)) || 'all';
  return which.length === 1 ? printable(which[0]?.id ?? '') : `${count(which.length)} chosen ones`;
}

/** `3 dead letters` */
export function deadLettersText(number: number): string {
  return counted(number, 'dead letter');
}
