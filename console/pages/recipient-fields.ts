import type { Context } from 'hono';
import { InputError, type Fault } from '../../src/domain/faults.ts';
import { MAX_WINDOW_MS, parseRules, ruleName, type Policy, type Rule } from '../../src/domain/limits.ts';
import { notificationSchema, parseCancelTarget, type CancelTarget } from '../../src/domain/notification.ts';
import { DAYS, quietFaults, type QuietHours } from '../../src/domain/quiet-hours.ts';
import { DURATION_FORMAT, formatDuration, INSTANT_FORMAT, instantOf, parseDuration } from '../../src/domain/time.ts';
import type { Action } from '../../src/limiter/foresee.ts';
import { notice } from '../layout.ts';
import type { ConsoleEnv } from '../session.ts';

// What the forms of a recipient's page send, and what is meant by it.

/** What an operator may do to a recipient: each has a form, a preview of what it would move, and a confirmation. */
export const TITLES = {
  block: 'Block',
  unblock: 'End the block',
  limit: 'Limit',
  unlimit: 'Forget its own limits',
  quiet: 'Set quiet hours',
  unquiet: 'Forget its own quiet hours',
  reset: 'Forget what was sent',
  cancel: 'Cancel notifications',
} as const;
export type Kind = keyof typeof TITLES;
export type Decided = Action | { readonly kind: 'cancel'; readonly target: CancelTarget };

export function isActionKind(kind: string | undefined): kind is Kind {
  return kind !== undefined && Object.hasOwn(TITLES, kind);
}

/** The id in the path; undefined if no recipient can have it. */
export function recipientIn(c: Context<ConsoleEnv>): string | undefined {
  const checked = notificationSchema.shape.recipientId.safeParse(c.req.param('id'));
  return checked.success ? checked.data : undefined;
}

export function noRecipient(c: Context<ConsoleEnv>): Response | Promise<Response> {
  const advice = 'The id of a recipient has 1 to 256 characters. Search for it instead.';
  return notice(c, { title: 'No recipient can have this id', advice });
}

/** Throws InputError with every field that is not usable. `general`: what is not given of limits comes from it. */
export function decide(id: string, kind: Kind, fields: URLSearchParams, now: number, general: Policy): Decided {
  const faults: Fault[] = [];
  const text = (name: string): string => (fields.get(name) ?? '').trim();
  const decided = ((): Decided => {
    switch (kind) {
      case 'block': {
        const until = endOf(text, now, faults);
        if (until === undefined) faults.push({ path: 'for', expected: DURATION_FORMAT, found: 'nothing' });
        return { kind, until: until ?? now, reason: text('reason') };
      }
      case 'limit':
        return { kind, policy: limitsIn(text, general, faults), until: endOf(text, now, faults) };
      case 'quiet':
        return { kind, hours: hoursIn(text, fields.getAll('days'), faults) };
      case 'cancel':
        return { kind, target: targetIn(id, text, faults) };
      default:
        return { kind };
    }
  })();
  if (faults.length > 0) throw new InputError('unusable form', faults);
  return decided;
}

type FieldText = (name: string) => string;

/** `until`, or `for` from now; undefined if neither is given. */
function endOf(text: FieldText, now: number, faults: Fault[]): number | undefined {
  const [until, forText] = [text('until'), text('for')];
  if (until !== '') {
    const at = instantOf(/^\d+$/.test(until) ? Number(until) : until);
    if (at === undefined) faults.push({ path: 'until', expected: INSTANT_FORMAT, found: JSON.stringify(until) });
    return at;
  }
  if (forText === '') return undefined;
  const ms = parseDuration(forText);
  if (ms === undefined || ms === 0) {
    faults.push({ path: 'for', expected: DURATION_FORMAT, found: JSON.stringify(forText) });
  }
  return ms === undefined ? now : now + ms;
}

/** The fields `rules` and `gap`, which both forms with limits have. */
export function limitsIn(text: FieldText, general: Policy, faults: Fault[]): Policy {
  const [rulesText, gapText] = [text('rules'), text('gap')];
  if (rulesText === '' && gapText === '') {
    faults.push({ path: 'rules', expected: 'rules such as 10/1m,100/1h, or a gap', found: 'nothing' });
  }
  return { rules: rulesIn(rulesText, general.rules, faults), minGapMs: gapIn(gapText, general.minGapMs, faults) };
}

function rulesIn(text: string, general: readonly Rule[], faults: Fault[]): readonly Rule[] {
  if (text === '') return general;
  if (text === 'none') return [];
  const parsed = parseRules(text, 'rules');
  if (parsed.ok) return parsed.rules;
  faults.push(...parsed.faults);
  return [];
}

function gapIn(text: string, general: number, faults: Fault[]): number {
  if (text === '') return general;
  const ms = parseDuration(text);
  if (ms !== undefined && ms <= MAX_WINDOW_MS) return ms;
  const expected = `0 or ${DURATION_FORMAT}, at most ${formatDuration(MAX_WINDOW_MS)}`;
  faults.push({ path: 'gap', expected, found: JSON.stringify(text) });
  return 0;
}

function hoursIn(text: FieldText, days: readonly string[], faults: Fault[]): QuietHours {
  const isSome = days.length > 0 && days.length < DAYS.length;
  const time = { ...(isSome && { days }), from: text('from'), until: text('end') };
  const hours = { timezone: text('timezone'), quietHours: [time] };
  // The form has one quiet time: `quietHours[0].until` is its field `end`.
  const named = (path: string) => path.replace(/^quietHours\[0\]\.?/, '').replace(/^until/, 'end');
  faults.push(...quietFaults(hours).map((fault) => ({ ...fault, path: named(fault.path) })));
  return hours as QuietHours;
}

function targetIn(recipientId: string, text: FieldText, faults: Fault[]): CancelTarget {
  const [id, cancellationKey] = [text('notification'), text('key')];
  const parsed = parseCancelTarget(id === '' ? { recipientId, cancellationKey } : { id });
  if (parsed.ok) return parsed.target;
  faults.push(...parsed.faults);
  return { id };
}

/** The fields of the same, with the instant of the end. */
export function hiddenFields(decided: Decided): readonly (readonly [name: string, value: string])[] {
  switch (decided.kind) {
    case 'block':
      return [
        ['until', String(decided.until)],
        ['reason', decided.reason],
      ];
    case 'limit': {
      const { policy, until } = decided;
      const rules = policy.rules.length === 0 ? 'none' : policy.rules.map(ruleName).join(',');
      const end = until === undefined ? [] : [['until', String(until)] as const];
      return [['rules', rules], ['gap', policy.minGapMs === 0 ? '0' : formatDuration(policy.minGapMs)], ...end];
    }
    case 'quiet': {
      const { timezone, quietHours } = decided.hours;
      const [time] = quietHours;
      const days = (time?.days ?? []).map((day) => ['days', day] as const);
      return [['timezone', timezone], ['from', time?.from ?? ''], ['end', time?.until ?? ''], ...days];
    }
    case 'cancel':
      return 'id' in decided.target ? [['notification', decided.target.id]] : [['key', decided.target.cancellationKey]];
    default:
      return [];
  }
}
