import { instantOf } from '../../src/domain/time.ts';
import { excuse, lifeAt, type Excused, type Fault, type Life } from './facts.ts';
import { hasLeft, type Fate, type Fates, type JudgeParts as Parts } from './fates.ts';
import { SENT_BODY } from './workload.ts';

// Rules 4 and 5: of what waits together.

/** Those that wait together: of one recipient, in one category, under one key. */
function groupsOf(fates: Fates, kind: 'digest' | 'latest'): Fate[][] {
  const some = [...fates.values()].filter(({ life }) => life.input.onThrottle === kind);
  return [
    ...Map.groupBy(some, ({ life: { input } }) => {
      return JSON.stringify([
        input.recipientId,
        input.category,
        kind === 'digest' ? input.digest?.key : input.collapseId,
      ]);
    }).values(),
  ];
}

/**
 * The notification whose id the end names. Its id may be used again before all its parts have ended: then the latest one, enqueued by
 * then, whose alert counts others too.
 */
function placeOf({ last }: Fate, { facts, fates }: Parts): Fate | undefined {
  const { by, at = 0 } = last ?? {};
  if (by === undefined) return undefined;
  const same = facts.lives.filter(({ id, askedAt }) => id === by && askedAt <= at);
  const counting = same.flatMap(({ name }) => fates.get(name) ?? []).findLast((fate) => (toldBy(fate) ?? 0) > 1);
  const life = lifeAt(facts.lives, by, at);
  return counting ?? (life && fates.get(life.name));
}

/** Rule 4: the alerts of a digest count each notification once, but those that were canceled. */
export function judgeDigests(parts: Parts): Fault[] {
  return groupsOf(parts.fates, 'digest').flatMap((group) => digestFaults(group, parts));
}

/** How many notifications a phone was told of by the alerts under this name; undefined if none was seen. */
function toldBy({ seen }: Fate): number | undefined {
  if (seen.length === 0) return undefined;
  return Math.max(...seen.map(({ body = '' }) => Number(SENT_BODY.exec(body)?.[1] ?? 1)));
}

/** An alert that counts fewer, or more, than the ends say. */
interface Difference {
  readonly fate: Fate;
  readonly told: number;
  /** The parts that should be in it, without those that were seen by themselves. */
  readonly joined: readonly Fate[];
  /** How many more there should be; below 0 for fewer. */
  readonly lack: number;
}

function digestFaults(group: readonly Fate[], parts: Parts): Fault[] {
  const { excused, doubts } = parts;
  const merged = group.filter(({ kind, isCanceled }) => kind === 'merged' && !isCanceled);
  const leaderOf = new Map(merged.map((part) => [part, placeOf(part, parts)]));
  const faults: Fault[] = [];
  const differences = group.flatMap((fate): Difference[] => {
    const told = toldBy(fate);
    if (told === undefined) return [];
    const joined = merged.filter((part) => leaderOf.get(part) === fate && part.seen.length === 0);
    return [{ fate, told, joined, lack: joined.length + (fate.isCanceled ? 0 : 1) - told }];
  });
  for (const { fate, told } of differences) {
    const most = fate.life.input.digest?.maxSize ?? 100;
    if (told <= most) continue;
    faults.push(fault(`${fate.life.name}: an alert for ${told}, and at most ${most} are in one digest`, [fate]));
  }
  const poor = differences.filter(({ lack }) => lack > 0);
  for (const one of poor) if (!hasLeft(one.fate)) faults.push(fewer(one));
  // The parts of a leader that left may be counted by another alert.
  const left = poor.filter(({ fate }) => hasLeft(fate));
  const alone = merged.filter((part) => part.seen.length === 0 && (leaderOf.get(part)?.seen.length ?? 0) === 0);
  const needing = alone.filter((part) => !endedWith(part, leaderOf.get(part), excused));
  const rich = differences.filter(({ lack }) => lack < 0);
  const spare = sum(rich.map(({ lack }) => -lack));
  const missing = sum(left.map(({ lack }) => lack));
  if (missing + needing.length > spare) {
    faults.push(...left.map(fewer));
    if (needing.length > 0) faults.push(uncounted(needing, leaderOf, spare));
  } else excuse(excused, 'counted by another one of its digest', missing + needing.length);
  // Those that joined, and whose worker was killed before it could say so.
  const unsaid = group.filter((fate) => fate.kind === 'expired' && doubts.wasInHand(fate)).length;
  // A part whose job somebody removed is counted all the same (docs/waiting.md).
  const removed = group.filter(({ kind }) => kind === 'removed').length;
  // A part of an alert that counts it, and seen by itself too: its worker was killed, say, before it could say so.
  const both = merged.filter((part) => {
    const leader = leaderOf.get(part);
    return part.seen.length > 0 && leader !== undefined && leader.seen.length > 0 && !hasLeft(leader);
  });
  const atFault = both.filter((part) =>
    part.seen.every((entry) => doubts.unanswered(entry) || doubts.inHand(part, entry)),
  );
  const more = spare - missing - alone.length;
  if (more > unsaid + removed + atFault.length) {
    const texts = rich.map(({ fate, told }) => `${fate.life.name}: an alert for ${told}`);
    const counted = rich.map(({ fate }) => fate);
    const canceled = group.filter((one) => one.kind === 'merged' && one.isCanceled && isIn(one, counted, parts));
    const names = canceled.map(({ life }) => life.name).join(', ');
    const why = names === '' ? '' : `; ${names}, merged into them, had been canceled`;
    const unseen = group.filter((one) => one.seen.length === 0); // one of them may be what is counted
    faults.push(fault(`${texts.join('; ')}: ${more} more than there are${why}`, [...counted, ...canceled, ...unseen]));
  } else if (more > 0) excuse(excused, 'counted, and expired in hand at a fault, or removed by hand', more);
  excuse(excused, 'merged, and seen at a fault', atFault.length);
  for (const part of both) {
    const leader = leaderOf.get(part);
    if (leader === undefined || atFault.includes(part)) continue;
    faults.push(
      fault(`${part.life.name}: is a part of ${leader.life.name}, and was seen by itself too`, [part, leader]),
    );
  }
  return faults;
}

function isIn(part: Fate, leaders: readonly Fate[], parts: Parts): boolean {
  const leader = placeOf(part, parts);
  return leader !== undefined && leaders.includes(leader);
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((all, one) => all + one, 0);
}

function uncounted(needing: readonly Fate[], leaderOf: ReadonlyMap<Fate, Fate | undefined>, spare: number): Fault {
  const texts = needing.map((part) => `${part.life.name} (merged into ${placeText(part, leaderOf.get(part))})`);
  const others = spare === 0 ? 'no alert counts' : `alerts count only ${spare} of`;
  const leaders = needing.flatMap((part) => leaderOf.get(part) ?? []);
  return fault(`${others} ${texts.join(', ')}`, [...needing, ...leaders]);
}

function fewer({ fate, told, joined }: Difference): Fault {
  const { life, isCanceled, last } = fate;
  const own = isCanceled ? 'itself canceled' : 'itself';
  const replay = (last?.generation ?? 0) > 0 ? ', after a replay' : '';
  const names = joined.map((part) => part.life.name).join(', ');
  const text = names === '' ? own : `${own} and ${names}`;
  return fault(`${life.name}: an alert for ${told}${replay}; ${text} should be in it`, [fate, ...joined]);
}

/**
 * Whether a part ended with its leader in a documented way: it expires no later than the leader, which expired; or the leader is a dead
 * letter still, whose replay would send all, or one that was discarded with all that is in it.
 */
function endedWith(part: Fate, leader: Fate | undefined, excused: Excused): boolean {
  if (leader === undefined) return false;
  const { kind } = leader;
  const isOver = part.life.input.expiresAt !== undefined;
  const why =
    kind === 'expired' && isOver
      ? 'expired with its digest'
      : kind === 'dead-lettered'
        ? 'in a digest that is a dead letter'
        : kind === 'discarded'
          ? 'in a digest that was discarded'
          : kind === 'removed'
            ? 'in a digest that was tried, and whose job was removed by hand'
            : undefined;
  if (why === undefined) return false;
  excuse(excused, why);
  return true;
}

function placeText(part: Fate, leader: Fate | undefined): string {
  if (leader === undefined) return `${part.last?.by ?? 'nothing'}, which is not known`;
  const own = leader.isCanceled && leader.kind !== 'canceled' ? ' and was canceled' : '';
  return `${leader.life.name}, which ended as ${leader.kind}${own}`;
}

function fault(text: string, fates: readonly Fate[], rule: 4 | 5 = 4): Fault {
  return { rule, text, lives: [...new Set(fates.map(({ life }) => life.name))] };
}

/** Rule 5: only a newer one takes the place of another, and the newest is seen. */
export function judgeLatest(parts: Parts): Fault[] {
  return groupsOf(parts.fates, 'latest').flatMap((group) => {
    const superseded = group.flatMap((fate) => supersededFaults(fate, parts));
    const newest = superseded.length === 0 ? newestFaults(group) : []; // it may be the same one
    return [...superseded, ...newest, ...orderFaults(group, parts)];
  });
}

/**
 * Whether one is the newer of two for sure: it was enqueued later. With `sendAfter` it is as old as one that is enqueued at that
 * instant; when Redis took another one is known only to lie between the call and its answer.
 */
function isNewer(one: Life, other: Life): boolean {
  const [own, its] = [instantOf(one.input.sendAfter) ?? 0, instantOf(other.input.sendAfter) ?? 0];
  if (own === its) return one.order > other.order;
  return Math.max(one.askedAt, own) > Math.max(other.acknowledgedAt, its);
}

function supersededFaults(fate: Fate, parts: Parts): Fault[] {
  if (fate.kind !== 'superseded') return [];
  const life = fate.last?.by === undefined ? undefined : lifeAt(parts.facts.lives, fate.last.by, fate.last.at);
  const newer = life && parts.fates.get(life.name);
  const { name, input } = fate.life;
  if (newer === undefined)
    return [fault(`${name}: was superseded by ${fate.last?.by ?? 'nothing'}, which is not known`, [fate], 5)];
  const other = newer.life.input;
  if (newer.life === fate.life || isNewer(fate.life, newer.life))
    return [fault(`${name}: was superseded by ${newer.life.name}, which is older`, [fate, newer], 5)];
  if (other.recipientId !== input.recipientId || other.collapseId !== input.collapseId)
    return [fault(`${name}: was superseded by ${newer.life.name}, of another line`, [fate, newer], 5)];
  return [];
}

/** The ends with which the newest is not seen, and no older one has to be. */
const UNSEEN = new Set(['canceled', 'removed', 'discarded', 'dead-lettered', 'expired', 'queued', 'none']);

function newestFaults(group: readonly Fate[]): Fault[] {
  const [newest, ...others] = group.filter(({ life }) => !group.some((other) => isNewer(other.life, life)));
  if (newest === undefined || others.length > 0) return []; // which of them is the newest is not known
  if (newest.seen.length > 0 || newest.isCanceled || UNSEEN.has(newest.kind)) return [];
  return [
    fault(`${newest.life.name}: is the newest of its collapse id, and ended as ${newest.kind}, unseen`, [newest], 5),
  ];
}

/** Two requests may overtake one another on their way by so much. */
const ON_THE_WAY_MS = 500;

/** No phone sees an older one after a newer one. */
function orderFaults(group: readonly Fate[], { doubts, excused }: Parts): Fault[] {
  const arrivals = group.flatMap((fate) => fate.seen.map((entry) => ({ fate, entry })));
  const byToken = Map.groupBy(arrivals, ({ entry }) => entry.token);
  const faults = new Map<string, Fault>();
  for (const own of byToken.values()) {
    const sorted = own.toSorted((a, b) => a.entry.at - b.entry.at);
    for (const [index, { fate, entry }] of sorted.entries()) {
      const newer = sorted
        .slice(0, index)
        .find((one) => isNewer(one.fate.life, fate.life) && one.entry.at < entry.at - ON_THE_WAY_MS);
      if (newer === undefined) continue;
      if (doubts.inHand(fate, entry)) {
        excuse(excused, 'an older one after a newer one, in hand at a fault');
        continue;
      }
      const { name } = fate.life;
      const replay = (fate.last?.generation ?? 0) > 0 ? ' (replayed)' : '';
      faults.set(
        name,
        fault(`${name}${replay}: was seen after ${newer.fate.life.name}, which is newer`, [fate, newer.fate], 5),
      );
    }
  }
  return [...faults.values()];
}
