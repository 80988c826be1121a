import { describeFound, InputError, optionFaults, type Fault, type OptionNames } from '../domain/faults.ts';
import { isObject } from '../domain/json.ts';
import {
  categoryFaults,
  MAX_WINDOW_MS,
  policyFaults,
  type CategoryPolicy,
  type Policy,
  type Overtaking,
} from '../domain/limits.ts';
import { quietFaults, type QuietHours } from '../domain/quiet-hours.ts';
import type { Block, Follow, SlotId, WaitingAsk } from './limiter.ts';

export const MAX_BLOCK_MS = 366 * 86_400_000;
const MAX_REASON = 500;
/** The bounds of an ask that are durations. */
const BOUNDS = ['maxWaitMs', 'maxQuietMs', 'expiresInMs'] as const;

const ASK_FIELDS: OptionNames<WaitingAsk> = {
  ...{ recipientId: true, id: true, category: true, policy: true, renew: true, leadMs: true, everyRule: true },
  ...{
    maxWaitMs: true,
    maxQuietMs: true,
    expiresInMs: true,
    maxPending: true,
    join: true,
    claim: true,
    enqueuedAt: true,
    untilAwake: true,
    goesFirst: true,
    behindOverdue: true,
    unusedAt: true,
  },
};
const BLOCK_FIELDS: OptionNames<Block> = { until: true, reason: true };
const OVERTAKING_OPTIONS: OptionNames<Overtaking> = { mostTimes: true, mostMs: true };
const FOLLOW_OPTIONS: OptionNames<Follow> = { onMoving: true, onMoved: true, onUnslotted: true, leadMs: true };
/** Names of options in other libraries, each with the name that it has here. */
export const MEANT_IN_OPTIONS = {
  ...{ rules: 'policy', max: 'policy', per: 'policy', perMs: 'policy', minGapMs: 'policy', limit: 'policy' },
  ...{ client: 'redis', storeClient: 'redis', connection: 'redis', redisUrl: 'redis', url: 'redis' },
};

/** Throws InputError with every option of a limiter that does not exist, then with every fault of its overall policy. */
export function checkLimiterOptions(
  options: { readonly policy: Policy },
  names: Readonly<Record<string, true>>,
  meant: Readonly<Record<string, string>> = MEANT_IN_OPTIONS,
): void {
  throwAll('unusable options', optionFaults(options, names, '', meant));
  throwAll('unusable policy', policyFaults(options.policy, 'policy'));
}

/** Throws InputError if the recipient or the id is missing, a field does not exist, or a bound is not usable. */
export function checkAsk(asked: WaitingAsk): void {
  const { maxPending, leadMs = 0 } = asked;
  const faults = [...optionFaults(asked, ASK_FIELDS), ...slotFaults(asked)];
  for (const path of BOUNDS) {
    const ms = asked[path];
    if (ms === undefined || (typeof ms === 'number' && !Number.isNaN(ms))) continue;
    faults.push({ path, expected: 'a number of milliseconds', found: String(ms) });
  }
  if (typeof leadMs !== 'number' || !(leadMs >= 0 && leadMs <= MAX_WINDOW_MS)) {
    const expected = `a number of milliseconds from 0 to ${MAX_WINDOW_MS}`;
    faults.push({ path: 'leadMs', expected, found: String(leadMs) });
  }
  if (maxPending !== undefined && !(Number.isSafeInteger(maxPending) && maxPending >= 0)) {
    faults.push({ path: 'maxPending', expected: 'an integer of 0 or more', found: String(maxPending) });
  }
  throwAll('unusable ask', faults);
}

/** The time with which `until` is compared, in epoch milliseconds. Absent if only Redis knows the time: then a script compares. */
type Now = number | undefined;

/** Throws InputError if the recipient id is missing or empty. Every other text is valid. */
export function checkRecipient(recipientId: string): void {
  throwAll('unusable recipient', textFaults({ recipientId }));
}

/** Throws InputError if the recipient id or the id is missing. */
export function checkSlot(slot: SlotId): void {
  throwAll('unusable slot', slotFaults(slot));
}

/** Throws InputError with every fault of the arguments of `limit`. */
export function checkLimit(recipientId: string, policy: Policy, until: number | undefined, now: Now): void {
  const faults = [...textFaults({ recipientId }), ...policyFaults(policy, 'policy')];
  if (until !== undefined) faults.push(...untilFaults(until, now, Infinity));
  throwAll('unusable limit', faults);
}

/** Throws InputError with every fault of the arguments of `block`. */
export function checkBlock(recipientId: string, block: Block, now: Now): void {
  const faults = [...optionFaults(block, BLOCK_FIELDS), ...textFaults({ recipientId })];
  const { until, reason } = block;
  faults.push(...untilFaults(until, now, MAX_BLOCK_MS));
  if (!isReadable(reason)) {
    const expected = `1 to ${MAX_REASON} printable characters`;
    faults.push({ path: 'reason', expected, found: describeText(reason) });
  }
  throwAll('unusable block', faults);
}

/** Throws InputError with every fault of the arguments of `quiet`. */
export function checkQuiet(recipientId: string, hours: QuietHours): void {
  throwAll('unusable quiet hours', [...textFaults({ recipientId }), ...quietFaults(hours)]);
}

/** Throws InputError with every fault of a limiter's own quiet hours. */
export function checkQuietHours(hours: QuietHours | undefined): void {
  if (hours !== undefined) throwAll('unusable quiet hours', quietFaults(hours));
}

/** Throws InputError with every fault of the policies of categories: `categories.messages.rules[0].max: expected ...`. */
export function checkCategories(categories: Readonly<Record<string, CategoryPolicy>>): void {
  if (!isObject(categories)) {
    const expected = 'an object: { <category>: { rules: [{ max, perMs }], minGapMs } }';
    throwAll('unusable categories', [{ path: 'categories', expected, found: describeFound(categories, false) }]);
  }
  const faults = Object.entries(categories).flatMap(([name, policy]) => categoryFaults(policy, `categories.${name}`));
  throwAll('unusable categories', faults);
}

/** Throws InputError if a bound of `overtaking` does not exist, or is not usable. */
export function checkOvertaking(overtaking: Overtaking): void {
  const faults = optionFaults(overtaking, OVERTAKING_OPTIONS, 'overtaking');
  for (const [path, value] of Object.entries(overtaking)) {
    if (!Object.hasOwn(OVERTAKING_OPTIONS, path) || (Number.isSafeInteger(value) && Number(value) >= 0)) continue;
    faults.push({ path: `overtaking.${path}`, expected: 'an integer of 0 or more', found: String(value) });
  }
  throwAll('unusable options', faults);
}

/** Throws InputError if the prefix of all keys is no text. */
export function checkPrefix(prefix: string): void {
  if (typeof prefix === 'string') return;
  throwAll('unusable options', [{ path: 'prefix', expected: 'a text', found: describeFound(prefix, false) }]);
}

/** Throws InputError if `keepMs` is not usable. */
export function checkKeep(keepMs: number): void {
  if (Number.isSafeInteger(keepMs) && keepMs >= 0 && keepMs <= MAX_WINDOW_MS) return;
  const expected = `an integer of milliseconds from 0 to ${MAX_WINDOW_MS}`;
  throwAll('unusable options', [{ path: 'keepMs', expected, found: String(keepMs) }]);
}

/** Throws InputError if an option does not exist, or `leadMs` is not usable. */
export function checkFollow(follow: Follow): void {
  throwAll('unusable options', optionFaults(follow, FOLLOW_OPTIONS));
  const { leadMs = 0 } = follow;
  if (Number.isSafeInteger(leadMs) && leadMs >= 0) return;
  const expected = 'an integer of milliseconds, 0 or more';
  throwAll('unusable options', [{ path: 'leadMs', expected, found: String(leadMs) }]);
}

function slotFaults({ recipientId, id, category }: SlotId): Fault[] {
  return textFaults({ recipientId, id, ...(category !== undefined && { category }) });
}

function textFaults(texts: Readonly<Record<string, unknown>>): Fault[] {
  return Object.entries(texts)
    .filter(([, value]) => typeof value !== 'string' || value === '')
    .map(([path, value]) => ({
      path,
      expected: 'a string of one character or more',
      found: value === '' ? '""' : typeof value,
    }));
}

function untilFaults(until: number, now: Now, mostMs: number): Fault[] {
  const isAhead = now === undefined || (until > now && until <= now + mostMs);
  if (Number.isSafeInteger(until) && isAhead) return [];
  const bound = mostMs === Infinity ? '' : `, at most ${mostMs / 86_400_000} days`;
  return [{ path: 'until', expected: `epoch milliseconds ahead of now${bound}`, found: String(until) }];
}

/** A readable text has no control characters, line breaks or lone surrogates; its length is counted in code points. */
function isReadable(reason: unknown): boolean {
  if (typeof reason !== 'string' || /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}]/u.test(reason)) return false;
  const length = Array.from(reason).length;
  return length >= 1 && length <= MAX_REASON;
}

function describeText(text: unknown): string {
  if (typeof text !== 'string') return typeof text;
  const length = Array.from(text).length;
  if (length >= 1 && length <= MAX_REASON) return 'characters that are not printable';
  return `${length} characters`;
}

function throwAll(what: string, faults: readonly Fault[]): void {
  if (faults.length > 0) throw new InputError(what, faults);
}
