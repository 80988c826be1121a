import { notificationIdOf } from '../../src/queue/names.ts';
import { excuse, type Excused, type Fault, type PairsFacts } from './facts.ts';
import { fatesOfId, type Doubts, type Fate, type Fates, type JudgeParts as Parts } from './fates.ts';
import type { Leftover } from './leftovers.ts';

// Rule 7: what is left in Redis when every notification has ended and every worker has stopped.

/** Keys that never expire, as docs/redis.md ("Every key") lists them. `SHARD` is any prefix in braces. */
const STAYS = [
  /^\{[^}]+\}:(notifications|dead-letters):(meta|id|pc|events|marker)$/,
  /^\{[^}]+\}:notifications:(completed|stalled)$/,
  /^\{[^}]+\}:dead-letters:wait$/,
  /^\{[^}]+\}:(outcomes|invalid-tokens|audit|shards)$/,
  /^\{[^}]+\}:shards:fence$/,
];
/** A job's hash. It lives until it leaves the set of the jobs that ended, or its dead letter goes. */
const JOB = /^(\{[^}]+\}:(?:notifications|dead-letters)):([^:]+)$/;
/** Jobs that have not ended are judged by rule 1. */
const UNENDED = /^\{[^}]+\}:notifications:(wait|prioritized|delayed|active|failed|paused)$/;

const SLOTS = /:(reserved|held:[^:]+|reserved:[^:]+)$/;
const WAITING = /:waiting$/;
const INDEX = /:cancellation:[^:]+$/;
const HOUR_MS = 3_600_000;
/** The newest of a collapse id is remembered for so long after it was sent (docs/waiting.md). */
const NEWEST_MS = 7 * 24 * HOUR_MS;
/** It was written a little before it was read. */
const SLACK_MS = 60_000;

export function judgeLeft({ facts, fates, doubts, excused }: Parts): Fault[] {
  const { leftovers, readAt } = facts;
  const known = { incidents: facts.incidents, fates, doubts, readAt, excused, removedByHand: removedOf(facts) };
  const members = new Set(
    leftovers.flatMap(({ key, content = {} }) => {
      const queue =
        /^(\{[^}]+\}:(?:notifications|dead-letters)):(?:completed|wait|prioritized|delayed|active|failed|paused)$/.exec(
          key,
        )?.[1];
      return queue === undefined ? [] : Object.keys(content).map((id) => `${queue}:${id}`);
    }),
  );
  return leftovers.flatMap((left) => {
    const found = [...foreverFaults(left, members)];
    if (SLOTS.test(left.key)) found.push(...slotFaults(left, known));
    if (WAITING.test(left.key)) found.push(...waitingFaults(left, known));
    if (INDEX.test(left.key)) found.push(...indexFaults(left, known));
    return found.map(({ text, ids }): Fault => ({ rule: 7, text: `${left.key}: ${text}`, lives: ids }));
  });
}

interface Found {
  readonly text: string;
  readonly ids: readonly string[];
}

interface Known {
  readonly fates: Fates;
  readonly doubts: Doubts;
  readonly incidents: PairsFacts['incidents'];
  readonly readAt: number;
  readonly excused: Excused;
  /** Job ids. */
  readonly removedByHand: ReadonlySet<string>;
}

/** Nothing of the product runs when a person removes a job: what points to it is found later, or forgotten. */
function removedOf({ done }: PairsFacts): ReadonlySet<string> {
  return new Set(done.flatMap((one) => (one.kind === 'remove' ? [one.jobId] : [])));
}

function foreverFaults({ key, ttlMs }: Leftover, members: ReadonlySet<string>): Found[] {
  if (ttlMs >= 0 || UNENDED.test(key) || STAYS.some((pattern) => pattern.test(key))) return [];
  const [, queue = '', id = ''] = JOB.exec(key) ?? [];
  if (members.has(`${queue}:${id}`)) return [];
  const ids = id === '' ? [] : [notificationIdOf(id)];
  return [{ text: id === '' ? 'never expires' : 'is in no state of its queue, and never expires', ids }];
}

/** `msg-1#r1/0` → `msg-1#r1` */
function jobIdOf(entry: string): string {
  return entry.replace(/\/\d+$/, '');
}

/** A slot that lies ahead, though all have ended. Past ones are forgotten a minute after their time (docs/operations.md). */
function slotFaults({ content = {} }: Leftover, { readAt, excused, removedByHand, fates }: Known): Found[] {
  return Object.entries(content).flatMap(([entry, at]) => {
    const jobId = jobIdOf(entry);
    if (entry.startsWith(' ') || Number(at) <= readAt || isQueued(notificationIdOf(jobId), fates)) return [];
    if (removedByHand.has(jobId)) {
      excuse(excused, 'the slot of a job that was removed by hand');
      return [];
    }
    return [
      { text: `${entry} has a slot ${Math.round(Number(at) - readAt)} ms ahead`, ids: [notificationIdOf(jobId)] },
    ];
  });
}

/**
 * Nothing after the end, but of a job that somebody removed, that is a dead letter, or whose worker was killed at its end
 * (docs/waiting.md, "What is given back, and when").
 */
function waitingFaults(
  { content = {} }: Leftover,
  { readAt, excused, removedByHand, fates, doubts, incidents }: Known,
): Found[] {
  const found: Found[] = [];
  for (const [field, text] of Object.entries(content)) {
    if (field === '#' || field === 'pruneAt') continue;
    const value = JSON.parse(text) as { readonly kept: number; readonly entry?: string; readonly name?: string };
    const most = value.entry === '' ? NEWEST_MS : 0;
    const leftMs = value.kept - readAt;
    const name = value.name ?? field.slice(field.indexOf(':') + 1).replace(/@\d+$/, '');
    const id = notificationIdOf(name);
    if (leftMs <= most + SLACK_MS || isQueued(id, fates)) continue;
    if (removedByHand.has(name) || wasDead(id, fates)) excuse(excused, 'kept for a job that was removed, or died');
    else if (fatesOfId(id, fates).some((fate) => doubts.wasInHand(fate) || endedAtFault(fate, incidents)))
      excuse(excused, 'kept for a job that was in hand at a fault');
    else found.push({ text: `${field} is kept for ${Math.round(leftMs / HOUR_MS)} h more`, ids: [id] });
  }
  return found;
}

/** Just after the end of its job its worker was killed, or Redis was, before the limiter could forget it. */
function endedAtFault({ last }: Fate, incidents: PairsFacts['incidents']): boolean {
  return last !== undefined && incidents.some(({ at, until }) => at - last.at < 500 && last.at <= until);
}

function wasDead(id: string, fates: Fates): boolean {
  return fatesOfId(id, fates).some(
    ({ last, kind }) => (last?.generation ?? 0) > 0 || kind === 'dead-lettered' || kind === 'discarded',
  );
}

/**
 * An ended job is in the index for an hour at most; longer only if a worker that stood still noted that it waits. The next cancel by the
 * key removes it.
 */
function indexFaults({ content = {} }: Leftover, { readAt, fates, excused, removedByHand, doubts }: Known): Found[] {
  const late = Object.entries(content).filter(([jobId, until]) => {
    if (Number(until) - readAt <= HOUR_MS + SLACK_MS || isQueued(notificationIdOf(jobId), fates)) return false;
    const id = notificationIdOf(jobId);
    const wasInHand = fatesOfId(id, fates).some((fate) => doubts.wasInHand(fate));
    if (removedByHand.has(jobId)) excuse(excused, 'a job that was removed by hand, in the index of cancellation keys');
    else if (wasInHand) excuse(excused, 'in the index of cancellation keys, in hand at a fault');
    else return true;
    return false;
  });
  if (late.length === 0) return [];
  const hours = Math.round((Math.max(...late.map(([, until]) => Number(until))) - readAt) / HOUR_MS);
  const jobIds = late.map(([jobId]) => jobId);
  return [{ text: `has ${jobIds.join(', ')}, which ended, for ${hours} h more`, ids: jobIds.map(notificationIdOf) }];
}

/** Rule 1 has that fault. */
function isQueued(id: string, fates: Fates): boolean {
  return fatesOfId(id, fates).some(({ kind }) => kind === 'queued');
}
