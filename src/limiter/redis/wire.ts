import { ruleName } from '../../domain/limits.ts';
import type { Window } from '../../domain/quiet-windows.ts';
import { quietCause } from '../cause.ts';
import type { Clock } from './clock.ts';
import type { Admission, Ask, Cause, RuleStanding, Standing } from '../limiter.ts';
import type { Digest, Ended, WaitingAsk } from '../waiting.ts';
import type { Answered, LimitRoom } from './replies.ts';

/** Writes an ask as arguments of admit.lua, and turns its answer (replies.ts) into an Admission. admit.lua explains each part. */

/** ARGV[5] of admit.lua. */
export function toOptions(
  { maxWaitMs = Infinity, maxPending, leadMs = 0, join, claim = false }: WaitingAsk,
  countBlocked: boolean,
): string {
  const isPlain = maxWaitMs === Infinity && maxPending === undefined && !countBlocked && join === undefined && !claim;
  if (isPlain && leadMs === 0) return '';
  return JSON.stringify({
    ...(maxWaitMs !== Infinity && { maxWait: Math.max(0, Math.floor(maxWaitMs)) }),
    ...(maxPending !== undefined && { maxPending }),
    ...(countBlocked && { countBlocked: 1 }),
    ...(leadMs > 0 && { lead: Math.ceil(leadMs) }),
    ...(join !== undefined && { join }),
    ...(claim && { claim: 1 }),
  });
}

export function toAdmission(
  answered: Answered,
  { everyRule = false }: Pick<Ask, 'everyRule'>,
  category: string | undefined,
  clock: Clock,
  quiet: readonly Window[] = [],
): (Admission & { readonly digest?: Digest }) | Ended {
  const { kind, at, now, more } = answered;
  const one = standingOf(answered, category);
  const standing = everyRule ? { ...one, rules: answered.rules.map((each) => ruleStanding(each, category)) } : one;
  switch (kind) {
    case 'admitted':
    case 'repeated':
      return {
        ...{ kind: 'admitted', at, sendAt: clock.toLocal(at), repeated: kind === 'repeated', ...standing },
        ...(more && { digest: { count: Number(more[0]), own: Number(more[1]) === 1 } }),
      };
    case 'reserved':
      return { kind, at, waitMs: at - now, ...standing, ...waitOf(answered, quiet) };
    case 'max-wait':
    case 'max-pending':
      return { kind: 'refused', because: kind, waitMs: at - now, ...standing, ...waitOf(answered, quiet) };
    case 'ended': {
      const [how, by] = (more ?? ['canceled', '']) as [Ended['how'], string];
      return { kind, how, ...(by !== '' && { by }), gaveBackSlot: at > now };
    }
  }
}

function standingOf(answered: Answered, category: string | undefined): Standing {
  const { remaining, resetMs, toleranceMs, gapMs } = answered;
  return { rule: ruleOf(answered, category), remaining, resetMs, toleranceMs, gapMs };
}

/** What a wait has in place of a limit's room. */
function waitOf(
  answered: Answered,
  quiet: readonly Window[],
): Pick<Cause, 'before' | 'ruleUntil'> & Pick<Standing, 'remaining'> {
  const { limit, at, now, windowMs, remaining: before } = answered;
  const told = limit === QUIET ? quietCause(quiet, at) : limit === BLOCK ? { ruleUntil: now + windowMs } : {};
  return { before, remaining: 0, ...told };
}

function ruleStanding(room: LimitRoom, category: string | undefined): RuleStanding {
  const { max, windowMs: perMs, remaining, resetMs } = room;
  return { rule: ruleOf(room, category), max, perMs, remaining, resetMs };
}

function ruleOf({ scope, limit, max, windowMs }: LimitRoom, category: string | undefined): string {
  const name = nameOf(limit, max, windowMs);
  return scope === 2 && category !== undefined ? `${category}:${name}` : name;
}

const RULE_NAMES = new Map<number, string>();
const MAX_RULE_NAMES = 10_000;

/** The numbers of what is no limit. */
const [BLOCK, NONE, QUIET] = [-1, -2, -3];
const NAMES_BELOW: Readonly<Record<number, string>> = { [BLOCK]: 'block', [NONE]: 'none', [QUIET]: 'quiet' };

/** Rule names are cached: formatting a duration was measured to take as long as all the rest of an answer. */
function nameOf(limit: number, max: number, perMs: number): string {
  if (limit === 0) return 'gap';
  if (limit < 0) return NAMES_BELOW[limit] ?? 'none';
  const key = max * 2 ** 32 + perMs; // windows are shorter than 2^32 ms
  const known = RULE_NAMES.get(key);
  if (known !== undefined) return known;
  const name = ruleName({ max, perMs });
  if (RULE_NAMES.size < MAX_RULE_NAMES) RULE_NAMES.set(key, name);
  return name;
}
