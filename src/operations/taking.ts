import { z } from 'zod';
import type { Forecast, ReplayTerms } from '../dead-letters/outlook.ts';
import { parseRate, rateText, REPLAYS_PER_SECOND } from '../dead-letters/pace.ts';
import type { RunRequest, Verb } from '../dead-letters/runs.ts';
import { isList, type Choice, type DeadLetterFilter } from '../dead-letters/take.ts';
import { printable, type Fault } from '../domain/faults.ts';
import { defined } from '../domain/json.ts';
import { policyText } from '../domain/limits.ts';
import { INSTANT_FORMAT, parseDuration } from '../domain/time.ts';
import { PLATFORMS } from '../notification/notification.ts';
import { DEAD_LETTER_REASONS } from '../notification/outcome.ts';
import { parseInstant } from '../terminal/command.ts';
import { deadLetters, instant, span } from '../terminal/text.ts';
import { instantField } from './common-fields.ts';
import { PLAIN_NAMES, readFields, unfit, written, type Given, type Names, type Read } from './fields.ts';

// Which dead letters an operator means, and what may be done with them. The terminal, the console and the HTTP API make their
// flags, forms and routes from these values. take-runs.ts runs replays and discards in the background.

/** The words for `replay` and `discard` in the terminal, the console and the HTTP API. */
export interface Taking {
  /** The name of the command, the end of the route, and the action in the audit. */
  readonly name: Verb;
  /** The text of its button. */
  readonly title: string;
  /** What it does, in one sentence. */
  readonly does: string;
  readonly past: 'replayed' | 'discarded';
  readonly question: string;
  /** The scope that a token needs for it. */
  readonly scope: 'operate';
}

export const REPLAY: Taking = {
  ...{ name: 'replay', title: 'Replay', past: 'replayed', scope: 'operate', question: 'Replay them?' },
  does: 'Puts dead letters back into the queue, oldest first.',
};

export const DISCARD: Taking = {
  ...{ name: 'discard', title: 'Discard', past: 'discarded', scope: 'operate', question: 'Discard them for good?' },
  does: 'Removes dead letters for good, oldest first.',
};

export const TAKINGS: Readonly<Record<Verb, Taking>> = { replay: REPLAY, discard: DISCARD };

/* The fields */

const TIME_FORMAT = `${INSTANT_FORMAT}, or a duration ago such as 2h`;
const RATE_FORMAT = 'a rate such as 50/s, 30/m or 500/h, or off';
/** A form shows the app without a name as this, since an empty field means any app. */
const NO_APP = "''";
/** At most this many can be picked: at least as many as one page of a list shows. */
const MOST_PICKED = 200;
const PICK_FORMAT = 'a shard and an id, such as 0:msg-1, or several of these';

const text = (label: string, value: string, example: string, description: string) =>
  written(z.string(), { label, value, example, description, isExact: true }, (given): Read<string> => ({
    value: given,
  }));

function oneOf<T extends string>(label: string, value: string, choices: readonly T[], description: string) {
  return written(z.string(), { label, value, choices, description }, (given): Read<T> => {
    const found = choices.find((each) => each === given);
    return found === undefined ? unfit(choices.join(', '), given) : { value: found };
  });
}

/** A century, so that the time is one that JavaScript can represent. */
const MOST_AGO_MS = 36_525 * 86_400_000;

/** Computes a written time, such as `2h`, in epoch milliseconds. `now`: the present time. */
type At = (now: number) => number;

function time(label: string, example: string, description: string) {
  const schema = z.union([z.string(), z.number()], { error: TIME_FORMAT });
  return written(schema, { label, value: 'time', example, description }, (given): Read<At> => {
    const agoMs = parseDuration(String(given));
    if (agoMs !== undefined) return agoMs > MOST_AGO_MS ? unfit(TIME_FORMAT, given) : { value: (now) => now - agoMs };
    const at = parseInstant(String(given));
    return at === undefined ? unfit(TIME_FORMAT, given) : { value: () => at };
  });
}

const which = {
  reason: oneOf('Reason', 'reason', DEAD_LETTER_REASONS, 'only those with this reason').optional(),
  recipient: text('Recipient', 'id', 'teacher-42', 'only those to this recipient').optional(),
  platform: oneOf(
    ...(['Platform', 'name', PLATFORMS] as const),
    'only those with a device on this platform that was not alerted',
  ).optional(),
  app: written(
    z.string(),
    {
      ...{ label: 'App', value: 'name', isExact: true, example: "any; '' for none" },
      description: "only those with such a device of this app; '' is the app of the environment",
    },
    (name): Read<string> => ({ value: name === NO_APP ? '' : name }),
  ).optional(),
  category: text('Category', 'name', 'any', 'only those of this category').optional(),
  id: text('Id', 'id', 'msg-8841', 'only the notification, or the dead letter, with this id').optional(),
  since: time('Since', '2h: two hours ago', 'only those that died then or later').optional(),
  until: time('Until', '10m: ten minutes ago', 'only those that died then or before').optional(),
};

/** The fields that choose dead letters. */
export const FILTER = z.strictObject(which);

/** The fields that choose dead letters, and the other fields of a replay or discard. */
export const TAKE = z.strictObject({
  ...which,
  all: written(
    z.boolean(),
    { label: 'All', value: '', kind: 'flag', description: 'all dead letters, without a filter' },
    (all): Read<boolean> => ({ value: all }),
  ).optional(),
  pick: written(
    z.union([z.string(), z.array(z.string())], { error: PICK_FORMAT }),
    {
      label: 'Pick',
      value: 'shard:id',
      kind: 'none',
      isExact: true,
      description: 'these ones, such as 0:msg-1, and no others',
    },
    readPicks,
  ).optional(),
  rate: written(
    z.string(),
    {
      label: 'Rate',
      value: 'n/s',
      description: `the most to take in a second; also 30/m or 500/h; off: without a pause; default: ${rateText(REPLAYS_PER_SECOND)}`,
    },
    (rate): Read<number> => {
      const perSecond = parseRate(rate);
      return perSecond === undefined ? unfit(RATE_FORMAT, rate) : { value: perSecond };
    },
  ).optional(),
  before: instantField({
    ...{ label: 'Before', value: 'time', kind: 'none', description: 'none that came later; a preview gives it' },
  }).optional(),
});

type Picked = Exclude<Choice['which'], DeadLetterFilter>;

function readPicks(given: string | readonly string[]): Read<Picked> {
  const picked = [given].flat().map((one) => [one, /^(\d{1,4}):([^]+)$/.exec(one)] as const);
  if (picked.length === 0 || picked.length > MOST_PICKED) return unfit(`1 to ${MOST_PICKED} of them`, given);
  const wrong = picked.find(([, match]) => match === null);
  if (wrong !== undefined) return unfit(PICK_FORMAT, wrong[0]);
  return { value: picked.map(([, match]) => ({ shard: Number(match?.[1]), id: match?.[2] ?? '' })) };
}

/** Which dead letters the fields mean; `{}` means all. Throws InputError. @param now for times such as `2h`: epoch milliseconds */
export function filterFrom(input: unknown, now: number, names: Names = PLAIN_NAMES): DeadLetterFilter {
  return filterOf(readFields('the filter', FILTER, input, { names, faults: timeFaults(now) }), now);
}

/** What is to be done with which dead letters. */
export type Wish = Omit<RunRequest, 'by'>;

/** @param now epoch milliseconds on Redis's clock. Throws InputError */
export function askToTake(verb: Verb, input: unknown, now: number, names: Names = PLAIN_NAMES): Wish {
  const faults = (given: Given): readonly Fault[] => [...timeFaults(now)(given, names), ...choiceFaults(given, names)];
  const fields = readFields(`cannot ${verb}`, TAKE, input, { names, faults });
  const { pick, rate = REPLAYS_PER_SECOND, before = now } = fields;
  // Dead letters that came after the operator's look are left out.
  return { verb, which: pick ?? filterOf(fields, now), perSecond: rate, buriedUntilMs: Math.min(before, now) };
}

/** Without a filter, `all` must be given, so that nobody takes all dead letters by mistake. */
function choiceFaults(given: Given, { of }: Names): readonly Fault[] {
  const filters = Object.keys(which).filter((name) => given[name] !== undefined);
  const [all, pick] = [given['all'] === true, given['pick'] !== undefined];
  if (all && filters.length > 0) {
    return [{ path: of('all'), expected: 'no filter beside it, since it means all dead letters', found: 'one' }];
  }
  if (pick && (all || filters.length > 0)) {
    return [{ path: of('pick'), expected: 'nothing else that chooses', found: of(all ? 'all' : (filters[0] ?? '')) }];
  }
  if (all || pick || filters.length > 0) return [];
  const known = Object.keys(which).map(of).join(', ');
  return [{ path: of('all'), expected: `a filter (${known}), or all of them with ${of('all')}`, found: 'neither' }];
}

const timeFaults =
  (now: number) =>
  (given: Given, names: Names): readonly Fault[] => {
    const read = z.object({ since: which.since, until: which.until }).safeParse(given);
    const [since, until] = [read.data?.since?.(now), read.data?.until?.(now)];
    if (since === undefined || until === undefined || since <= until) return [];
    const expected = `an instant before ${names.of('until')}, ${instant(until)}`;
    return [{ path: names.of('since'), expected, found: instant(since) }];
  };

function filterOf(fields: z.output<typeof FILTER>, now: number): DeadLetterFilter {
  const { reason, recipient: recipientId, platform, app, category, id, since, until } = fields;
  const times = { sinceMs: since?.(now), untilMs: until?.(now) };
  return defined({ reason, recipientId, platform, app, category, id, ...times });
}

/* And back */

/** A filter as fields, with fixed times in place of durations. */
export function filterFields(filter: DeadLetterFilter): Record<string, string> {
  const { reason, recipientId: recipient, platform, category, id } = filter;
  const app = filter.app === '' ? NO_APP : filter.app;
  const [since, until] = [filter.sinceMs, filter.untilMs].map((at) =>
    at === undefined ? undefined : new Date(at).toISOString(),
  );
  return defined({ reason, recipient, platform, app, category, id, since, until });
}

/** `0:msg-1` */
export function pickText({ shard, id }: Picked[number]): string {
  return `${shard}:${id}`;
}

export function choiceFields(chosen: Choice['which']): Readonly<Record<string, string | true | readonly string[]>> {
  if (isList(chosen)) return { pick: chosen.map(pickText) };
  const fields = filterFields(chosen);
  return Object.keys(fields).length === 0 ? { all: true } : fields;
}

/** `all`, `msg-1`, `12 chosen ones`, `reason rejected, since 2026-11-21T14:00:00Z`; safe for a terminal */
export function choiceText(chosen: Choice['which']): string {
  if (isList(chosen)) return chosen.length === 1 ? printable(chosen[0]?.id ?? '') : `${chosen.length} chosen ones`;
  const fields = Object.entries(filterFields(chosen)).map(([name, value]) => `${name} ${value}`);
  return printable(fields.join(', ')) || 'all';
}

/* What it would come to */

/** `, to 12 recipients (40 to teacher-42)` */
export function toWhomText({ recipients, busiest }: Forecast): string {
  if (busiest === undefined) return '';
  const { recipientId, count } = busiest;
  if (recipients === 1) return `, to ${printable(recipientId)}`;
  return `, to ${recipients} recipients${count === 1 ? '' : ` (${count} to ${printable(recipientId)})`}`;
}

/** When the last alert of a replay would be sent, and how many would have expired: whole sentences. */
export function outlookSentences(
  { count, expired, lastAfterMs }: Forecast,
  { perSecond, policy }: Pick<ReplayTerms, 'perSecond' | 'policy'>,
): readonly string[] {
  if (count === 0) return [];
  if (lastAfterMs === undefined) return ['All of them have expired: none will be sent.'];
  const gone = expired === 0 ? [] : [`About ${expired} will have expired by then, and will not be sent.`];
  const rate = perSecond === Infinity ? 'Without a rate' : `At ${rateText(perSecond)}`;
  const when = lastAfterMs < 1_000 ? 'at once' : `in about ${span(lastAfterMs)}`;
  return [`${rate}, and under ${policyText(policy)}, the last goes out ${when}.`, ...gone];
}

/** Says that dead letters of a newer version are left; undefined if there are none. @param past `replayed` */
export function newerText(count: number, past: string): string | undefined {
  if (count === 0) return undefined;
  const [were, are] = count === 1 ? ['was', 'is'] : ['were', 'are'];
  const whose = `${deadLetters(count)} ${were} written by a newer version of pushpacer`;
  return `${whose}, and ${are} not ${past}: use the newer version`;
}
