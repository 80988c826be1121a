import { shownOf } from '../sandbox/journal.ts';
import { idealMakespan } from '../sandbox/judge.ts';
import { tokenOf } from '../src/notification/device.ts';
import type { Policy } from '../src/domain/limits.ts';
import type { ToDevices } from '../src/notification/notification.ts';
import type { DeadLetterReason } from '../src/notification/outcome.ts';
import type { Canceled } from '../src/producer/producer.ts';
import type { DemoResult, WaitingCounts } from './counts.ts';
import { BUSIEST, MATCH, MISCONFIGURED, NIGHT, THREAD, TRIP, type Morning } from './morning.ts';
import type { SeenEntry } from './providers-child.ts';
import type { DemoDeadLetter } from './queue.ts';

/** One line of the verdict. */
export interface Check {
  readonly what: string;
  readonly found: string;
  readonly ok: boolean;
}

/** The promises that do not depend on the machine, with what was found. The demo fails if one is broken. */
export function promises(result: DemoResult): Check[] {
  const none = (what: string, found: number): Check => ({ what, found: `${found}`, ok: found === 0 });
  return [
    none('lost', result.lost),
    none('sent twice', result.duplicates),
    none('alerts closer than the gap', result.gapViolations),
    none('alerts too many for a window', result.windowViolations),
    {
      what: 'background pushes over their own limit',
      found: `${result.backgroundViolations} of ${result.backgroundPushes}`,
      ok: result.backgroundPushes > 0 && result.backgroundViolations === 0,
    },
    { what: 'workers that still run', found: `${result.workers} of 4`, ok: result.workers === 4 },
    // A morning in which nothing was delivered or blocked would keep all of the above.
    {
      what: 'delivered; put back until their slot',
      found: `${result.delivered}; ${result.blocked}`,
      ok: result.delivered > 0 && result.requeues > 0,
    },
  ];
}

/** Those numbers of a result that depend on the machine, and their causes. */
export type MachineCounts = Pick<
  DemoResult,
  | 'requeues'
  | 'blocked'
  | 'requeuesPerBlocked'
  | 'alertsOfBusiest'
  | 'moreRequeuesOfBusiest'
  | 'makespanMs'
  | 'idealMakespanMs'
  | 'makespanRatio'
  | 'lateWakes'
  | 'mostLateMs'
  | 'standstills'
>;

/** Some are put back twice on every machine: what a provider refused for now is sent again, and needs another slot. */
const MORE_REQUEUES = 0.05;
const MORE_TIME = 0.03;

/**
 * What depends on the machine, beside its cause. A notification that comes back later than the tolerance may find its slot used
 * up: then it is put back once more, or one whose slot it takes. So is one whose worker could not run when it was to be sent.
 * One more requeue is granted for each time that the workers measured one of the two. Each further requeue of a recipient may leave
 * one slot empty, as if there were one alert more, and its line is late by the lateness of the latest.
 */
export function machineChecks(result: MachineCounts, policy: Policy): Check[] {
  const { requeues, blocked, requeuesPerBlocked, makespanMs, idealMakespanMs, makespanRatio } = result;
  const { lateWakes, standstills, alertsOfBusiest, moreRequeuesOfBusiest, mostLateMs } = result;
  const mostRequeues = blocked * (1 + MORE_REQUEUES) + lateWakes + standstills;
  const mostMs = idealMakespan(alertsOfBusiest + moreRequeuesOfBusiest, policy) * (1 + MORE_TIME) + mostLateMs;
  return [
    {
      what: 'requeues of each blocked notification',
      found: `${requeuesPerBlocked} (at most ${(blocked === 0 ? 0 : mostRequeues / blocked).toFixed(2)})`,
      ok: requeues <= mostRequeues,
    },
    {
      what: "the busiest teacher's time over the ideal",
      found: `${makespanRatio} (at most ${(idealMakespanMs === 0 ? 1 : mostMs / idealMakespanMs).toFixed(2)})`,
      ok: makespanMs <= mostMs,
    },
  ];
}

interface WaitingParts {
  readonly entries: readonly SeenEntry[];
  /** Token → recipient. */
  readonly recipientOf: ReadonlyMap<string, string>;
  readonly valid: readonly ToDevices[];
  readonly counts: WaitingCounts;
  /** The answer to the cancel. */
  readonly canceled: Canceled;
}

/** One of high priority that comes when so many wait goes before this many at least. Some of the others are of high priority too. */
const LEAST_OVERTAKEN = 15;

/** What was promised to the teachers for whom something else than waiting was asked for, by what their devices got. */
export function checkWaiting({ entries, recipientOf, valid, counts, canceled }: WaitingParts): Check[] {
  const arrived = (recipientId: string): SeenEntry[] =>
    entries.filter((entry) => entry.accepted && recipientOf.get(entry.token) === recipientId);
  const asked = (recipientId: string) => valid.filter((one) => one.recipientId === recipientId);

  const counted = arrived(THREAD).map(({ body = '' }) => Number(/^(\d+) new messages$/.exec(body)?.[1] ?? 1));
  const messages = counted.reduce((sum, count) => sum + count, 0);
  const ofMatch = arrived(MATCH);
  const scores = ofMatch.map(({ body }) => body);
  const newest = ofMatch.find(({ body }) => body === asked(MATCH).at(-1)?.alert?.body);
  // One that its worker could not send in time may be seen after the newest, but it left before.
  const isLast = newest !== undefined && ofMatch.every(({ at, delayMs = 0 }) => at - delayMs <= newest.at);
  const high = asked(BUSIEST).findLastIndex(({ priority }) => priority === 'high');
  const order = [...new Set(arrived(BUSIEST).map(({ data }) => data['ref']))];
  const place = order.indexOf(asked(BUSIEST)[high]?.id);
  const shown = Object.groupBy(arrived(NIGHT), shownOf);
  const silent = asked(NIGHT).filter(({ onQuiet }) => onQuiet === 'silence').length;
  return [
    {
      what: 'messages of one thread, in how many alerts',
      found: `${messages} of ${asked(THREAD).length}, in ${counted.length}`,
      ok: messages === asked(THREAD).length && counted.length < messages && counts.merged > 0,
    },
    {
      what: 'scores of a match, the newest last',
      found: `${scores.join(', ')}; ${counts.superseded} gave way`,
      ok: isLast && counts.superseded === asked(MATCH).length - scores.length && counts.superseded > 0,
    },
    {
      what: 'the last of high priority, enqueued and arrived as',
      found: `${high + 1} and ${place + 1} of ${order.length}`,
      ok: place >= 0 && place <= high - LEAST_OVERTAKEN,
    },
    {
      what: 'canceled, and arrived all the same',
      found: `${canceled.canceled} of ${asked(TRIP.recipientId).length}, ${arrived(TRIP.recipientId).length}`,
      ok:
        canceled.canceled === asked(TRIP.recipientId).length &&
        counts.canceled === canceled.canceled &&
        arrived(TRIP.recipientId).length === 0,
    },
    {
      what: 'in quiet hours silent, dropped, urgent',
      found: `${shown.silent?.length ?? 0} of ${silent}, ${counts.dropped} of 1, ${shown.alert?.length ?? 0} of 1`,
      ok: shown.silent?.length === silent && counts.dropped === 1 && shown.alert?.length === 1,
    },
  ];
}

/** Whether the dead letters are those that the morning's troubles make, each for the reason that its trouble has. */
export function checkDeadLetters(letters: readonly DemoDeadLetter[], morning: Morning): Check {
  const expected = expectedReasons(morning);
  const right = letters.filter(({ id, reason }) => expected.get(id) === reason).length;
  const surplus = letters.length - right;
  return {
    what: 'dead letters, each for the right reason',
    found: `${right} of ${expected.size}${surplus === 0 ? '' : `, and ${surplus} others`}`,
    ok: right === expected.size && surplus === 0,
  };
}

/** Notification → reason, for those that no device can get. */
function expectedReasons({ valid, malformed, troubles }: Morning): Map<string, DeadLetterReason> {
  const ofToken = reasonsByToken(troubles);
  const undeliverable = valid.flatMap(({ id, devices }) => {
    const reasons = new Set(devices.map((device) => ofToken.get(tokenOf(device))));
    const [reason] = reasons;
    return reason !== undefined && reasons.size === 1 ? [[id, reason] as const] : [];
  });
  return new Map([...malformed.map(({ id }) => [id, 'invalid'] as const), ...undeliverable]);
}

/** Device token → why it can get nothing. */
function reasonsByToken(troubles: Morning['troubles']): Map<string | undefined, DeadLetterReason> {
  // What is answered only a few times is an overload, and is tried again.
  const lasting = troubles.filter(({ times }) => times === undefined);
  return new Map(lasting.map(({ token, reason }) => [token, reason === MISCONFIGURED ? 'bad-token' : 'unregistered']));
}

/** @param id of the dead letter that was replayed and arrived; undefined if none did */
export function checkReplayed(id: string | undefined): Check {
  return { what: 'a dead letter replayed, its cause mended', found: id ?? 'not delivered', ok: id !== undefined };
}
