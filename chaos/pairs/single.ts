import type { SeenEntry } from '../../demo/providers-child.ts';
import { retractionIn, screensOf } from '../../sandbox/screen.ts';
import { refOf } from '../workload.ts';
import { lifeAt, excuse, type End, type Fault, type PairsFacts } from './facts.ts';
import { hasLeft, labelsOf, type Fate, type JudgeParts as Parts } from './fates.ts';
import { SENT_BODY } from './workload.ts';

// Rules 1 to 3: of each notification by itself.

/** A line of the stream comes a little before, or after, what it is compared with. */
const SEEN_WITHIN_MS = 1_000;

/** Rule 1: each ended once for each time that it was enqueued. */
export function judgeEnds(parts: Parts): Fault[] {
  const { facts, fates } = parts;
  const faults = [...fates.values()].flatMap((fate) => {
    return endFaults(fate, parts).map((found): Fault => ({
      rule: 1,
      text: `${fate.life.name}: ${found}`,
      lives: [fate.life.name],
    }));
  });
  const strangers = [...facts.ends, ...facts.dead].filter(({ life }) => !fates.has(life));
  return [
    ...faults,
    ...strangers.map(({ life }): Fault => ({ rule: 1, text: `${life}: ended, and nobody enqueued it`, lives: [life] })),
    ...earlierLives(parts),
  ];
}

function endFaults(fate: Fate, parts: Parts): string[] {
  const { kind, ends, last, dead, removed } = fate;
  const found: string[] = [];
  if (kind === 'none')
    found.push(last === undefined ? 'has no end' : `was a dead letter (${last.reason ?? ''}), which is gone`);
  if (kind === 'queued') {
    const state = parts.facts.queued.find((text) => text.startsWith(`${fate.life.name} `)) ?? '';
    const how = endInLimiter(fate.life.id, parts.facts);
    const also = how === undefined ? '' : `, although the limiter has it as ${how}`;
    found.push(`is still in the queue, ${state.slice(fate.life.name.length + 1)}${also}`);
  }
  if (dead !== undefined && kind !== 'dead-lettered')
    found.push(`ended as ${kind}, and is a dead letter too (${dead.reason})`);
  for (const [generation, own] of Map.groupBy(ends, (end) => end.generation)) {
    const outcomes = [...new Set(own.map(({ outcome }) => outcome))];
    if (outcomes.length > 1 && !mayBoth(outcomes, fate, parts)) {
      found.push(`ended in two ways at generation ${generation}: ${outcomes.join(', ')}`);
    }
    const isReplayed = generation < (last?.generation ?? 0);
    if (isReplayed && !outcomes.includes('dead-lettered')) {
      found.push(`ended as ${outcomes.join(', ')} at generation ${generation}, and was replayed`);
    }
  }
  if (removed !== undefined && last !== undefined && last.at > removed.until + SEEN_WITHIN_MS)
    found.push(`ended as ${last.outcome} after its job was removed`);
  const wrong = ends.find((end) => !canEnd(end, fate));
  if (wrong !== undefined) found.push(`ended as ${wrong.outcome}, which it cannot`);
  if (last?.outcome === 'canceled' && !mayBeCanceled(fate, parts)) found.push('was canceled, and no cancel says so');
  return found;
}

/** It gets this answer when it asks for its slot. */
function endInLimiter(id: string, { leftovers }: PairsFacts): string | undefined {
  const found = leftovers.flatMap(({ key, content }) =>
    key.endsWith(':waiting')
      ? Object.entries(content ?? {}).flatMap(([field, text]) => (field.startsWith(`end:${id}@`) ? text : []))
      : [],
  );
  return found[0] === undefined ? undefined : (JSON.parse(found[0]) as { readonly how: string }).how;
}

/**
 * A part of a digest that is canceled has ended as `merged` before. So has a part that goes on with a digest whose leader left. A worker that
 * was killed between the entry in the stream and the end of its job wrote one that is not the end.
 */
function mayBoth(outcomes: readonly string[], fate: Fate, { doubts, excused, fates }: Parts): boolean {
  if (outcomes[0] === 'merged' && outcomes.length === 2 && outcomes.includes('canceled')) return true;
  const { by } = fate.ends.find(({ outcome }) => outcome === 'merged') ?? {};
  const leaders = [...fates.values()].filter(({ life }) => life.id === by);
  if (outcomes.includes('merged') && leaders.some(hasLeft)) return true;
  if (!doubts.wasInHand(fate)) return false;
  excuse(excused, 'two outcomes, in hand at a fault');
  return true;
}

function canEnd({ outcome }: End, { life: { input } }: Fate): boolean {
  switch (outcome) {
    case 'delivered':
    case 'canceled':
    case 'dead-lettered':
      return true;
    case 'expired':
      return input.expiresAt !== undefined;
    case 'dropped':
      return input.onThrottle === 'drop';
    case 'superseded':
      return input.onThrottle === 'latest';
    case 'merged':
      return input.onThrottle === 'digest';
    default:
      return false;
  }
}

/** An id that was canceled stays canceled for a week (docs/waiting.md), so also when it is enqueued again. */
function mayBeCanceled({ life }: Fate, { facts }: Parts): boolean {
  return facts.done.some((done) => {
    if (done.kind === 'cancel-id') return done.id === life.id && done.canceled > 0;
    if (done.kind === 'retract') return done.id === life.id;
    const by = done.kind === 'failed' ? done.on : done.kind === 'cancel-key' && done.canceled > 0 ? done : undefined;
    if (by === undefined) return false;
    if ('id' in by) return by.id === life.id;
    const { recipientId, cancellationKey } = life.input;
    return by.recipientId === recipientId && by.key === cancellationKey;
  });
}

/** An id is taken until its end. */
function earlierLives({ facts, fates }: Parts): Fault[] {
  return facts.lives.flatMap((life): Fault[] => {
    const before = facts.lives.findLast(({ id, order }) => id === life.id && order < life.order);
    const fate = before && fates.get(before.name);
    if (before === undefined || fate === undefined) return [];
    const wasOver = facts.done.some((done) => {
      return (
        (done.kind === 'forget' || done.kind === 'remove') &&
        done.life === before.name &&
        done.from <= life.acknowledgedAt
      );
    });
    if (wasOver) return [];
    return [{ rule: 1, text: `${life.name}: was added, although ${before.name} had its id`, lives: [life.name] }];
  });
}

/** Rule 2: what was delivered was seen, and what was seen was delivered, once. */
export function judgeSeen(parts: Parts): Fault[] {
  return [...parts.fates.values()].flatMap((fate) => {
    const found = [...unseen(fate), ...undelivered(fate, parts), ...twice(fate, parts)];
    return found.map((text): Fault => ({ rule: 2, text: `${fate.life.name}: ${text}`, lives: [fate.life.name] }));
  });
}

function unseen({ kind, last, seen, life }: Fate): string[] {
  if (kind !== 'delivered') return [];
  if (seen.length === 0) return ['was delivered, and no phone saw it'];
  const states = last?.devices ?? {};
  return labelsOf(life).flatMap(({ label, token }) => {
    const isMissing = states[label] === 'delivered' && !seen.some((entry) => entry.token === token);
    return isMissing ? [`was delivered to ${label}, which did not see it`] : [];
  });
}

/** What is judged with its digest is left out: a part may be sent in place of a leader that left. */
function undelivered(fate: Fate, { doubts, excused }: Parts): string[] {
  const { kind, seen, isCanceled, isRetracted, removed } = fate;
  // One of its devices was alerted, and the other one was to be tried again.
  if (kind === 'removed' && seen.length > 0 && seen.every(({ at }) => at < (removed?.until ?? 0))) {
    excuse(excused, 'seen, then removed by hand');
    return [];
  }
  if (seen.length === 0 || kind === 'delivered' || kind === 'merged' || isCanceled || isRetracted) return [];
  const certain = seen.filter((entry) => !doubts.unanswered(entry));
  if (certain.length === 0) {
    excuse(excused, 'seen, but the answer did not say so');
    return [];
  }
  if (certain.every((entry) => doubts.inHand(fate, entry))) {
    excuse(excused, 'seen, in hand at a fault');
    return [];
  }
  return [`was seen by a phone, and ended as ${kind}`];
}

function twice(fate: Fate, { doubts, excused }: Parts): string[] {
  const byToken = Map.groupBy(fate.seen, ({ token }) => token);
  return [...byToken.values()].flatMap((entries) =>
    entries.slice(1).flatMap((second, index) => {
      const first = entries[index] as SeenEntry;
      if (doubts.unanswered(first)) excuse(excused, 'seen twice: the answer did not say so');
      else if (doubts.inHand(fate, first) || doubts.inHand(fate, second))
        excuse(excused, 'seen twice: in hand at a fault');
      else return [`was seen twice by ${second.platform}, ${Math.round(second.at - first.at)} ms apart`];
      return [];
    }),
  );
}

/** Rule 3: what was canceled is not seen, but for an alert for the others of its digest. */
export function judgeCanceled(parts: Parts): Fault[] {
  const { facts, fates } = parts;
  const byId = [...fates.values()].flatMap((fate) => {
    if (fate.canceledAt === undefined) return [];
    const own = fate.seen.filter(({ body = '' }) => !SENT_BODY.test(body));
    const [first] = own;
    if (first === undefined) return [];
    const when = first.at < fate.canceledAt ? 'had been seen when its cancel' : 'was seen after its cancel';
    const after = fate.last === undefined ? '' : `, and ended as ${fate.kind} at generation ${fate.last.generation}`;
    const lives = [fate.life.name];
    return [{ rule: 3 as const, text: `${fate.life.name}: ${when} was answered with canceled${after}`, lives }];
  });
  const known = new Set(byId.flatMap(({ lives }) => lives));
  const byKey = facts.done.flatMap((done) => {
    if (done.kind !== 'cancel-key' || done.tooLate > 0) return [];
    return [...fates.values()].flatMap((fate): Fault[] => {
      const { name, input, acknowledgedAt } = fate.life;
      const isMeant = input.recipientId === done.recipientId && input.cancellationKey === done.key;
      if (!isMeant || acknowledgedAt >= done.from || known.has(name) || !isSeenLater(fate, done.until, parts))
        return [];
      known.add(name);
      return [
        {
          rule: 3,
          text: `${name}: was seen after a cancel by its key ${done.key} that was too late for none`,
          lives: [name],
        },
      ];
    });
  });
  return [...byId, ...byKey, ...judgeRetracted(parts)];
}

/** A phone that keeps an alert that was retracted, unless its provider said that the phone is gone. A digest is for others too. */
function judgeRetracted({ facts, fates, excused }: Parts): Fault[] {
  const gone = new Set(
    facts.entries.flatMap((entry) =>
      ![404, 410].includes(entry.status ?? 0) || retractionIn(entry) === undefined ? [] : entry.token,
    ),
  );
  const meant = facts.done.flatMap((done) => {
    const isMeant = done.kind === 'retract' && done.canceled + done.retracting > 0;
    return isMeant ? (lifeAt(facts.lives, done.id, done.from)?.name ?? []) : [];
  });
  const kept = [...screensOf(facts.entries).values()].flatMap((screen) => [...screen.values()]);
  return kept.flatMap((entry): Fault[] => {
    const name = refOf(entry.data);
    if (!meant.includes(name) || SENT_BODY.test(entry.body ?? '') || fates.get(name) === undefined) return [];
    if (gone.has(entry.token)) {
      excuse(excused, 'retracted, and its phone was gone');
      return [];
    }
    return [{ rule: 3, text: `${name}: was retracted, and ${entry.platform} still shows it`, lives: [name] }];
  });
}

/** By a key no dead letters are canceled, nor what had ended. */
function isSeenLater(fate: Fate, at: number, { doubts, excused, facts }: Parts): boolean {
  const { ends, seen, life } = fate;
  const later = seen.find((entry) => entry.at > at + SEEN_WITHIN_MS / 10 && !SENT_BODY.test(entry.body ?? ''));
  if (later === undefined || ends.some((end) => end.outcome === 'dead-lettered' && end.at < at + SEEN_WITHIN_MS))
    return false;
  if (lifeAt(facts.lives, life.id, at) !== life) return false;
  if (!doubts.inHand(fate, later)) return true;
  excuse(excused, 'seen after a cancel by key, in hand at a fault');
  return false;
}
