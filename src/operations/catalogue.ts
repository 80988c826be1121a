import { z } from 'zod';
import { didYouMean, printable, type Fault } from '../domain/faults.ts';
import { limitedText, MAX_WINDOW_MS, parseRules, policyText, ruleName, type Rule } from '../domain/limits.ts';
import { parseCancelTarget } from '../notification/notification.ts';
import { DAYS, meantDay, quietFaults, quietHoursText, type Day, type QuietHours } from '../domain/quiet-hours.ts';
import { DURATION_FORMAT, formatDuration, parseDuration } from '../domain/time.ts';
import { MAX_BLOCK_MS } from '../limiter/checks.ts';
import { instantFrom } from '../terminal/text.ts';
import { endFaults, endOf, forField, noneFaults, textField, untilField } from './common-fields.ts';
import { unfit, written, type FieldLook, type Names, type Read } from './fields.ts';
import { note, unnote } from './note.ts';
import { defineOperation, type Kept, type Operation, type OperatorStore } from './operation.ts';

/* A block */

const block = defineOperation({
  ...{ name: 'block', title: 'Block', scope: 'operate', done: 'the recipient is blocked' },
  does: 'Stops all notifications to this recipient until the end.',
  help: `
Waiting notifications are moved behind the end, in their order, and their delayed jobs with them. Those whose expiresAt comes
first expire. An earlier block is replaced.`,
  hint: 'Nothing is sent to it before the end. What waits is moved behind the end, in its order.',
  answers: ['until', 'reason'],
  fields: z.strictObject({
    for: forField('from now, such as 2h').optional(),
    until: untilField.optional(),
    reason: textField({ label: 'Reason', value: 'text', description: 'for people to read' }),
  }),
  isOffered: () => true,
  initial: () => ({ for: '2h' }),
  faults: (given, names) => [...endFaults(given, names), ...noneFaults(given, ['for', 'until'], names)],
  plan({ reason, ...end }, at) {
    const until = endOf(end, at, MAX_BLOCK_MS) ?? at.now; // one of the two fields is given
    const when = instantFrom(at.now, until);
    return {
      deed: { kind: 'block', until, reason },
      settled: { until, reason },
      would: `Nothing is sent to it until ${when}: ${reason}`,
      did: () => ({
        text: `${printable(at.recipientId)} is blocked until ${when}: ${printable(reason)}`,
        fields: { until, reason },
      }),
    };
  },
});

const unblock = defineOperation({
  ...{ name: 'unblock', title: 'End the block', scope: 'operate', done: 'the block has ended', isGentle: true },
  does: 'Ends the block. Notifications that wait are moved to their earliest slots.',
  ...{ help: '', hint: 'What waits moves up.', answers: ['wasBlocked'] },
  fields: z.strictObject({}),
  isOffered: ({ block: found }) => found !== undefined,
  plan: (_, { recipientId }) => ({
    ...{ deed: { kind: 'unblock' }, settled: {} },
    would: 'The block ends. What waits goes as soon as the limits allow it.',
    did: ({ wasThere }) => ({
      text: `${printable(recipientId)} ${wasThere ? 'is not blocked any more' : 'was not blocked'}`,
      ...{ fields: { wasBlocked: wasThere }, isShort: true },
    }),
  }),
});

/* Limits */

export function readRules(text: string): Read<readonly Rule[]> {
  if (text === 'none') return { value: [] };
  const parsed = parseRules(text, '');
  return parsed.ok ? { value: parsed.rules } : parsed;
}

export function readMinGap(text: string): Read<number> {
  const ms = parseDuration(text);
  if (ms !== undefined && ms <= MAX_WINDOW_MS) return { value: ms };
  return unfit(`0 or ${DURATION_FORMAT}, at most ${formatDuration(MAX_WINDOW_MS)}`, text);
}

/** The rules as people write them. */
function rulesText(rules: readonly Rule[]): string {
  return rules.length === 0 ? 'none' : rules.map(ruleName).join(',');
}

const limit = defineOperation({
  ...{ name: 'limit', title: 'Limit', scope: 'operate', done: 'the limits are stored' },
  does: 'Stores limits for this recipient, in place of the general ones.',
  help: `
What is not given comes from LIMIT_RULES and LIMIT_MIN_GAP. The limits hold for all workers at once. Waiting notifications
are moved to their earliest slots, in their order, and their delayed jobs with them. Limits per category hold too.`,
  hint: 'Limits of its own, in place of the general ones.',
  answers: ['policy', 'source', 'until'],
  fields: z.strictObject({
    rules: written(
      z.string(),
      {
        label: 'Rules',
        value: 'rules',
        description: 'at most 5 in a minute and 50 in an hour: 5/1m,50/1h; the word none for no rules',
      },
      readRules,
    ).optional(),
    minGap: written(
      z.string(),
      { label: 'Gap', value: 'duration', description: 'the least time between two alerts: 10s; 0 for none' },
      readMinGap,
    ).optional(),
    for: forField('from now, such as 7d (default: without an end)').optional(),
    until: untilField.optional(),
  }),
  isOffered: () => true,
  initial: ({ policy }) => ({ rules: rulesText(policy.rules), minGap: formatDuration(policy.minGapMs) }),
  faults: (given, names) => [...endFaults(given, names), ...noneFaults(given, ['rules', 'minGap'], names)],
  plan({ rules, minGap, ...end }, at) {
    const policy = { rules: rules ?? at.policy.rules, minGapMs: minGap ?? at.policy.minGapMs };
    const until = endOf(end, at);
    const when = until === undefined ? ', without an end' : ` until ${instantFrom(at.now, until)}`;
    const settled = { rules: rulesText(policy.rules), minGap: formatDuration(policy.minGapMs) };
    return {
      deed: { kind: 'limit', policy, until },
      settled: { ...settled, ...(until !== undefined && { until }) },
      would: `It ${limitedText(policy)}${when}. Limits of categories hold too.`,
      did: ({ after }) => ({
        text: `${printable(at.recipientId)} ${limitedText(policy)}${when}`,
        fields: { policy: after.policy, source: after.source, until: after.policyUntil },
      }),
    };
  },
});

const unlimit = defineOperation({
  ...{ name: 'unlimit', title: 'Forget its own limits', scope: 'operate', isGentle: true },
  done: 'the general limits hold',
  does: 'Forgets the stored limits: the general ones hold again.',
  ...{ help: '', hint: 'The general limits hold again.', answers: ['policy', 'source', 'until'] },
  flagOf: { operation: 'limit', flag: '--clear', does: 'forget the stored limits: the general ones hold again' },
  fields: z.strictObject({}),
  isOffered: ({ source }) => source === 'stored',
  plan: (_, { recipientId, policy }) => ({
    ...{ deed: { kind: 'unlimit' }, settled: {} },
    would: 'The general limits hold for it again.',
    did({ wasThere, after }) {
      const had = wasThere ? 'has no limits of its own any more' : 'had no limits of its own';
      return {
        text: `${printable(recipientId)} ${had}; in force is ${policyText(policy)}`,
        fields: { policy: after.policy, source: after.source, until: after.policyUntil },
      };
    },
  }),
});

/* Quiet hours */

const DAYS_FORMAT = 'days such as mon-fri or sat,sun';
const DAYS_INPUT = z.union([z.string(), z.array(z.string())], { error: DAYS_FORMAT });

/** `mon-fri`, `sat,sun` or both: the days, in the order in which they are written. */
export function readDays(input: string | readonly string[]): Read<readonly Day[]> {
  const days: Day[] = [];
  for (const part of typeof input === 'string' ? input.split(',') : input) {
    const [first = '', last = first, ...more] = part.trim().split('-');
    const [from, until] = [first, last].map((name) => DAYS.findIndex((known) => known === name));
    if (from === undefined || until === undefined || from < 0 || until < 0 || more.length > 0) {
      const meant = [first, last].filter((name) => !DAYS.some((known) => known === name)).map(meantDay);
      return unfit(`${DAYS_FORMAT}${didYouMean(meant[0])}`, input);
    }
    const count = ((until - from + DAYS.length) % DAYS.length) + 1;
    days.push(...Array.from({ length: count }, (_, index) => DAYS[(from + index) % DAYS.length] ?? 'sun'));
  }
  return { value: [...new Set(days)] };
}

/** A field that is not checked by itself: the parts of a quiet time depend on each other, so they are checked together. */
function asItIs<T>(schema: z.ZodType<T, T>, look: FieldLook & { readonly description: string }) {
  return written(schema, look, (value): Read<T> => ({ value })).optional();
}

const TIME_OF_DAY = { value: 'time', kind: 'time' } as const;
const ONE_TIME = '{ "days": ["mon"], "from": "21:00", "until": "07:00" }';

const quietFields = z.strictObject({
  timezone: asItIs(z.string(), { label: 'Time zone', value: 'name', description: 'whose clock: Europe/Paris' }),
  from: asItIs(z.string(), { label: 'From', ...TIME_OF_DAY, description: 'when it begins: 21:00' }),
  until: asItIs(z.string(), { label: 'Until', ...TIME_OF_DAY, description: 'when it ends: 07:00' }),
  days: written(
    DAYS_INPUT,
    { label: 'Begins on', value: 'days', kind: 'days', description: 'the days on which it begins: mon-fri' },
    readDays,
  ).optional(),
  quietHours: asItIs(z.array(z.unknown().describe(ONE_TIME)), {
    ...{ label: 'Quiet hours', value: 'path', kind: 'file', description: 'the quiet hours' },
  }),
  none: asItIs(z.literal(true), {
    ...{ label: 'None', value: '', kind: 'flag' },
    description: 'no time is quiet, also if LIMITS_FILE has quiet hours',
  }),
});

/** The quiet hours that the fields give, with the days as a list. */
function hoursOf(given: Readonly<Record<string, unknown>>): unknown {
  if (given['none'] === true) return { timezone: 'UTC', quietHours: [] };
  const { timezone, from, until, days } = given;
  if ('quietHours' in given) return { timezone, quietHours: given['quietHours'] };
  const texts = DAYS_INPUT.safeParse(days); // the schema reports days that are no texts
  const read = texts.success ? readDays(texts.data) : undefined;
  return { timezone, quietHours: [{ ...(read && 'value' in read && { days: read.value }), from, until }] };
}

const TIME = ['from', 'until', 'days'] as const;

function quietFieldFaults(given: Readonly<Record<string, unknown>>, { of, word }: Names): readonly Fault[] {
  const isGiven = (field: string): boolean => given[field] !== undefined;
  const other = ['timezone', ...TIME, 'quietHours'].find(isGiven);
  if (isGiven('none')) {
    return other === undefined ? [] : [{ path: of('none'), expected: `no other ${word}`, found: of(other) }];
  }
  const own = TIME.find(isGiven);
  if ('quietHours' in given) {
    if (own !== undefined)
      return [{ path: of('quietHours'), expected: `none of ${TIME.map(of).join(', ')}`, found: of(own) }];
    return quietFaults(hoursOf(given)).map((fault) => ({ ...fault, path: fault.path.replace(/^\w*/, of) }));
  }
  const missing = ['timezone', 'from', 'until'].filter((field) => !isGiven(field)).map(of);
  if (missing.length > 0) {
    const expected = `${of('timezone')}, ${of('from')} and ${of('until')} (or ${of('quietHours')}, or ${of('none')})`;
    return [{ path: missing.join(', '), expected, found: 'nothing' }];
  }
  // A fault at `quietHours[0].from` is about the field `from`; a fault at `quietHours` is about `from` and `until` together.
  const named = (path: string): string =>
    path === 'quietHours' ? `${of('from')}, ${of('until')}` : of(path.replace(/^quietHours\[0\]\.?/, ''));
  return quietFaults(hoursOf(given)).map((fault) => ({ ...fault, path: named(fault.path) }));
}

const quiet = defineOperation({
  ...{ name: 'quiet', title: 'Set quiet hours', scope: 'operate', done: 'the quiet hours are stored' },
  does: 'Stores quiet hours for this recipient: no alert is shown in them.',
  help: `
If --until is before --from, the quiet time ends on the next day. --days are the days on which it begins, such as mon-fri or
sat,sun (default: every day). For several quiet times, --file has JSON:
  { "timezone": "Europe/Paris", "quietHours": [
    { "days": ["mon"], "from": "21:00", "until": "07:00" }
  ] }
The quiet hours replace earlier ones, and those of LIMITS_FILE. They hold for all workers at once. Waiting notifications
are moved to their earliest slots, in their order, and their delayed jobs with them.`,
  hint: 'No alert is shown in this time. For several times use the command.',
  answers: ['quiet'],
  fields: quietFields,
  isOffered: () => true,
  initial({ quiet: found }) {
    const [time] = found?.hours.quietHours ?? [];
    const until = time?.until === '24:00' ? '00:00' : (time?.until ?? '07:00');
    return { timezone: found?.hours.timezone ?? 'UTC', from: time?.from ?? '21:00', until, days: time?.days ?? DAYS };
  },
  faults: quietFieldFaults,
  plan(fields, { recipientId }) {
    const hours = hoursOf(fields) as QuietHours;
    const text = quietHoursText(hours);
    const [time, ...more] = hours.quietHours;
    const single = time && {
      ...{ timezone: hours.timezone, from: time.from, until: time.until },
      ...(time.days && { days: time.days.join(',') }),
    };
    return {
      deed: { kind: 'quiet', hours },
      settled: more.length > 0 ? { quietHours: text } : (single ?? { none: 'true' }),
      would: time === undefined ? 'No time is quiet for it.' : `No alert is shown in these times: ${text}.`,
      did: ({ after }) => ({
        text: `${printable(recipientId)} has quiet hours: ${text}`,
        fields: { quiet: after.quiet },
      }),
    };
  },
});

const unquiet = defineOperation({
  ...{ name: 'unquiet', title: 'Forget its own quiet hours', scope: 'operate', isGentle: true },
  done: 'the general quiet hours hold',
  does: 'Removes the stored quiet hours: those of LIMITS_FILE hold again.',
  ...{ help: '', hint: 'The general quiet hours hold again.', answers: ['wasQuiet', 'quiet'] },
  fields: z.strictObject({}),
  isOffered: ({ quiet: found }) => found?.source === 'stored',
  plan: (_, { recipientId }) => ({
    ...{ deed: { kind: 'unquiet' }, settled: {} },
    would: 'The general quiet hours hold for it again, if there are any.',
    did({ wasThere, after }) {
      const had = wasThere ? 'has no quiet hours of its own any more' : 'had no quiet hours of its own';
      const inForce = after.quiet === undefined ? '' : `; in force is ${quietHoursText(after.quiet.hours)}`;
      return {
        text: `${printable(recipientId)} ${had}${inForce}`,
        fields: { wasQuiet: wasThere, quiet: after.quiet },
      };
    },
  }),
});

/* What was sent, and what waits */

const reset = defineOperation({
  ...{ name: 'reset', title: 'Forget what was sent', scope: 'operate', done: 'what was sent counts no longer' },
  does: 'Forgets what was sent to this recipient, in every category.',
  help: `
Sent alerts no longer count, so more may follow at once. Waiting notifications are moved to their earliest slots, in their
order, and their delayed jobs with them. Stored limits and a block stay.`,
  hint: 'What was sent counts no longer, so more may follow at once.',
  answers: ['wasKnown', 'sent'],
  fields: z.strictObject({}),
  isOffered: ({ sent }) => sent.length > 0,
  plan: (_, { recipientId }) => ({
    ...{ deed: { kind: 'reset' }, settled: {} },
    would: 'What was sent counts no longer, so more may follow at once. Limits of its own and a block stay.',
    did({ wasThere, before: { sent } }) {
      const name = printable(recipientId);
      return {
        text: wasThere ? `forgot ${sent.length} sent to ${name}` : `nothing was sent to ${name} lately`,
        ...{ fields: { wasKnown: wasThere, sent: sent.length }, isShort: true },
      };
    },
  }),
});

const cancel = defineOperation({
  ...{ name: 'cancel', title: 'Cancel notifications', scope: 'operate', done: 'what waited is canceled' },
  does: "Cancels this recipient's notifications that wait: one by its id, or all under a cancellation key.",
  help: '',
  hint: 'All that wait under a cancellation key. To cancel one, use the link in its row.',
  answers: ['canceled', 'tooLate'],
  fields: z.strictObject({
    notification: written(
      z.string(),
      { label: 'Notification', value: 'id', kind: 'none', description: "the notification's id" },
      (id): Read<string> => readTarget({ id }, id),
    ).optional(),
    key: written(
      z.string(),
      { label: 'Cancellation key', value: 'key', description: 'the cancellationKey that they have in common' },
      (key): Read<string> => readTarget({ recipientId: 'any', cancellationKey: key }, key),
    ).optional(),
  }),
  isOffered: () => true,
  faults({ notification, key }, { of }) {
    if ((notification === undefined) !== (key === undefined)) return [];
    const expected = `${of('key')} (a cancellationKey) or ${of('notification')}`;
    return [{ path: of('key'), expected, found: key === undefined ? 'neither' : 'both' }];
  },
  plan({ notification, key = '' }, { recipientId }) {
    const target = notification === undefined ? { recipientId, cancellationKey: key } : { id: notification };
    return {
      deed: { kind: 'cancel', target },
      settled: notification === undefined ? { key } : { notification },
      would:
        notification === undefined
          ? `What waits under the cancellation key ${key} is not sent.`
          : `${notification} is not sent, if it is not too late.`,
      did: ({ canceled, tooLate }) => ({
        text: `canceled ${canceled}${tooLate === 0 ? '' : `; too late for ${tooLate}`}`,
        ...{ fields: { canceled, tooLate }, isShort: true },
      }),
    };
  },
});

function readTarget(target: object, text: string): Read<string> {
  const parsed = parseCancelTarget(target);
  return parsed.ok ? { value: text } : { faults: parsed.faults.map((fault) => ({ ...fault, path: '' })) };
}

/** All operations on one recipient, in the order in which they are offered. A new operation is a value in this list. */
export const OPERATIONS: readonly Operation[] = [
  ...[block, unblock, limit, unlimit, quiet, unquiet, reset, cancel],
  ...[note, unnote],
];

export function operationOf(name: string | undefined): Operation | undefined {
  return OPERATIONS.find((operation) => operation.name === name);
}

/** What operations keep about a recipient, in the order of the operations. */
export async function keptAbout(recipientId: string, store: OperatorStore): Promise<readonly Kept[]> {
  const all = await Promise.all(OPERATIONS.map(async (operation) => operation.kept?.(recipientId, store)));
  return all.filter((each) => each !== undefined);
}

/** What is kept about a recipient, as fields of the JSON that shows the recipient. */
export function keptFields(kept: readonly Kept[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(kept.flatMap(({ fields }) => Object.entries(fields)));
}
