import { checks } from '../../chaos/judge.ts';
import { judgeRun } from '../../chaos/report.ts';
import { slotOfRecipient, slotOfShard, SHARDS } from '../../chaos/cluster.ts';
import type { Freeze, Incident } from '../../chaos/fleet.ts';
import type { Forgetting } from '../../chaos/forgotten.ts';
import { parseLog } from '../../chaos/logs.ts';
import type { Enqueued, Completed } from '../../chaos/queue.ts';
import type { Facts } from '../../chaos/run.ts';
import { WorkerDelays } from '../../demo/delays.ts';
import type { SeenEntry } from '../../demo/providers-child.ts';
import type { StoredDeadLetter } from '../../src/dead-letters/letter.ts';
import { readProgress } from '../../src/delivery/progress.ts';
import type { Device, ToDevices } from '../../src/notification/notification.ts';
import type { DeadLetter } from '../../src/notification/outcome.ts';
import { createLog } from '../../src/observe/log.ts';
import { shardOf } from '../../src/queue/names.ts';
import { createBreakerListener } from '../../workers/breakers.ts';

// The facts of a run, written down by hand.

export const TOKEN = 'ab'.repeat(16);
export const OTHER_TOKEN = 'registration-token';
export const APNS = { platform: 'apns', token: TOKEN } as const;
export const FCM = { platform: 'fcm', token: OTHER_TOKEN } as const;
export const WEB = { platform: 'webpush', token: 'https://127.0.0.1/push/ana' } as const;
export const BROWSER = { platform: 'webpush', endpoint: WEB.token, keys: { p256dh: '', auth: '' } } as const;

/** Of one recipient and for one APNs device, but for what `more` says. */
function enqueuedOf(id: string, more: Partial<ToDevices> = {}): Enqueued {
  return { id, input: { id, recipientId: 'r', devices: [APNS], alert: { body: 'b' }, ...more } };
}

/** What APNs received for a notification: accepted, but for what `more` says. */
export function entryOf(id: string, at: number, more: Partial<SeenEntry> = {}): SeenEntry {
  const accepted = { ...APNS, accepted: true, status: 200, apnsId: `uuid-${id}` } as const;
  return { ...accepted, at, data: { ref: `marker.${id}` }, ...more };
}

export function completedOf(id: string, outcome = 'delivered', more: Partial<Completed> & { ran?: object } = {}) {
  const { ran = {}, ...rest } = more;
  return { id, outcome, progress: readProgress(ran), ...rest };
}

function deadOf(id: string, more: Partial<DeadLetter> = {}): StoredDeadLetter {
  const letter = { notification: { id }, reason: 'unregistered' as const, message: '', attempts: [] };
  return { id, buriedAt: 0, letter: { ...letter, deadAt: 0, generation: 0, ...more } };
}

/** Of the worker at place 0, for half a second; it had `ids` in hand. */
function freezeOf(at: number, ids: readonly string[] = [], more: Partial<Freeze> = {}): Freeze {
  const holders = new Map(ids.map((id) => [id, 'first']));
  return { log: 'worker-0.log', at, forMs: 500, thawedAt: at + 520, holders, ...more };
}

function killOf(at: number, ids: readonly string[], more: Partial<Incident> = {}): Incident {
  return { kind: 'kill', at, until: at, ids: new Set(ids), ...more };
}

const PREFIX = '{pushpacer-chaos}';
const SLOTS = [slotOfShard(PREFIX, shardOf('r', SHARDS)), slotOfRecipient('r')];
/** Of the master with the queue and the slots of recipient `r`: it was killed at 210,000, and kept all until 209,800. */
export const FAILOVER: Forgetting = {
  ...{ at: 210_000, until: 213_000, keptUntil: 209_800, lagMs: 150, admissions: [] },
  ranges: SLOTS.map((slot) => [slot, slot] as const),
};
/** The same of another master. */
export const ELSEWHERE: Forgetting = { ...FAILOVER, ranges: [[1, 1]] };

/** Facts that a row of the table may change. */
type Open<T> = { -readonly [K in keyof T]: T[K] extends readonly (infer U)[] ? U[] : T[K] };
export interface Run extends Open<Omit<Facts, 'enqueued' | 'ends' | 'cancels' | 'canceledAt' | 'injected' | 'logs'>> {
  readonly enqueued: Map<string, Enqueued>;
  readonly ends: Open<Facts['ends']>;
  readonly cancels: Map<string, boolean>;
  readonly canceledAt: Map<string, { from: number; until: number }>;
  readonly injected: Open<Facts['injected']>;
  readonly logs: Map<string, { at: number; id?: string }[]>;
  cluster?: { readonly waitReplicas: number };
}

/**
 * A run in which everything was struck and nothing broke. Recipient `r` got `a` and, a gap later, `b`; `both` went to two
 * devices; `k` was in hand when its worker was killed, and came twice. Of a digest `l` went for itself, `p` and `q`; `new` took
 * the slot of `old`.
 */
function rightRun(): Run {
  const digest = { recipientId: 'digest', onThrottle: 'digest', digest: { key: 'k', body: '{{count}} new' } } as const;
  const latest = { recipientId: 'latest', onThrottle: 'latest', collapseId: 'c' } as const;
  const of = (recipientId: string, more: Partial<ToDevices> = {}) => ({ recipientId, ...more });
  const all = [
    ...[enqueuedOf('a'), enqueuedOf('b'), enqueuedOf('both', of('both', { devices: [APNS, FCM] }))],
    ...[enqueuedOf('k', of('killed')), enqueuedOf('dead', of('dead')), { id: 'malformed' }],
    ...[enqueuedOf('expired', { expiresAt: 1 }), enqueuedOf('dropped', { onThrottle: 'drop' })],
    ...['l', 'p', 'q'].map((id) => enqueuedOf(id, digest)),
    ...['old', 'new'].map((id) => enqueuedOf(id, latest)),
    ...[enqueuedOf('canceled'), enqueuedOf('too-late', of('too-late'))],
    enqueuedOf('night', of('night', { onQuiet: 'silence' })),
    ...[enqueuedOf('push', of('push')), enqueuedOf('web', of('web', { devices: [BROWSER] }))],
  ];
  const delivered = ['b', 'both', 'k', 'l', 'new', 'too-late', 'night', 'push', 'web'];
  const counts = {
    ...{ 'kill-worker': 1, 'stop-worker': 1, 'restart-worker': 1, 'kill-redis': 1, 'pause-redis': 1, 'cut-clients': 1 },
  } as Facts['injected']['counts'];
  return {
    enqueued: new Map(all.map((one) => [one.id, one])),
    entries: [
      ...[entryOf('k', 99_000, { accepted: false, status: 503, reason: 'Odd' }), entryOf('a', 100_000)],
      ...[
        entryOf('b', 100_500),
        entryOf('both', 100_000),
        entryOf('both', 100_010, { ...FCM, payload: { notification: {} } }),
      ],
      ...[entryOf('k', 100_000), entryOf('k', 109_000)],
      ...[entryOf('l', 100_000, { body: '3 new' }), entryOf('new', 100_000), entryOf('too-late', 100_000)],
      entryOf('night', 100_000, { payload: { aps: { 'interruption-level': 'passive' } } }),
      ...[entryOf('push', 100_000, { pushType: 'background' }), entryOf('web', 100_000, { ...WEB, status: 201 })],
    ],
    ends: {
      completed: [
        completedOf('a', 'delivered', { ran: { requeues: 1 } }),
        ...delivered.map((id) => completedOf(id)),
        ...['expired', 'dropped', 'canceled'].map((outcome) => completedOf(outcome, outcome)),
        ...['p', 'q'].map((id) => completedOf(id, 'merged', { by: 'l' })),
        completedOf('old', 'superseded', { by: 'new' }),
      ],
      dead: [deadOf('dead'), deadOf('malformed', { reason: 'invalid' })],
      queued: [],
    },
    cancels: new Map([
      ['canceled', true],
      ['too-late', false],
    ]),
    canceledAt: new Map(),
    prefix: PREFIX,
    injected: {
      ...{ counts, incidents: [killOf(100_200, ['k'])], freezes: [], cuts: [], failovers: [], slotsMoved: [] },
      oddDevices: [{ token: TOKEN, word: 'Odd' }],
    },
    leaks: [],
    logs: new Map([
      [
        'worker-0.log',
        [
          { at: 1, workerIds: ['first'] },
          { at: 2, breaker: { platform: 'fcm', trouble: 'auth', code: 'UNAUTHENTICATED' } },
        ],
      ],
    ]),
    delays: new WorkerDelays(),
    ...{ crashes: [], drainMs: 0, stalls: [], left: [] },
  };
}

/** What is done to a run. */
export type Change = (run: Run) => unknown;

export const enqueue = (id: string, more: Partial<ToDevices> = {}): Change => {
  return ({ enqueued }) => enqueued.set(id, enqueuedOf(id, more));
};
/** Providers received these of a notification, and nothing else. */
export const seen = (id: string, ...entries: readonly SeenEntry[]): Change => {
  return (run) => (run.entries = [...run.entries.filter(({ data }) => data['ref'] !== `marker.${id}`), ...entries]);
};
/** Providers received one more. */
export const request = (id: string, at: number, more: Partial<SeenEntry> = {}): Change => {
  return ({ entries }) => entries.push(entryOf(id, at, more));
};
export const ended = (id: string, ...ends: Run['ends']['completed']): Change => {
  return (run) => (run.ends.completed = [...run.ends.completed.filter((one) => one.id !== id), ...ends]);
};
export const dead =
  (id: string): Change =>
  ({ ends }) =>
    ends.dead.push(deadOf(id));
export const queued =
  (id: string): Change =>
  ({ ends }) =>
    ends.queued.push(id);
export const cancel =
  (id: string, answer: boolean): Change =>
  ({ cancels }) =>
    cancels.set(id, answer);
/** Alerts to a recipient of their own, so many of them and so far apart. */
export const alerts = (
  count: number,
  everyMs: number,
  more: Partial<ToDevices> = {},
  entry: Partial<SeenEntry> = {},
): Change => {
  const device: Device = { apns: APNS, fcm: FCM, webpush: BROWSER }[entry.platform ?? 'apns'];
  return (run) => {
    for (let index = 0; index < count; index += 1) {
      const id = `own-${index}`;
      enqueue(id, { recipientId: 'own', devices: [device], ...more })(run);
      ended(id, completedOf(id))(run);
      request(id, 300_000 + index * everyMs, entry)(run);
    }
  };
};
/** `a` and `b`, too close by 10 ms. */
export const close: Change = (run) => seen('b', entryOf('b', 100_440))(run);
/** `a` a second time. */
export const again = (at = 109_000): Change => request('a', at);
export const killed =
  (at: number, id: string, more = {}): Change =>
  ({ injected }) =>
    injected.incidents.push(killOf(at, [id], more));
/** It had the notification in hand. */
export const frozen =
  (at: number, id: string, more = {}): Change =>
  ({ injected }) =>
    injected.freezes.push(freezeOf(at, [id], more));
/** Redis did not say what it had in hand; then it logged these passes. */
export const frozenUnasked =
  (at: number, forMs: number, ...passes: readonly (readonly [at: number, id: string])[]): Change =>
  (run) => {
    run.injected.freezes.push(freezeOf(at, [], { forMs, thawedAt: at + forMs + 20 }));
    run.logs.get('worker-0.log')?.push(...passes.map(([time, id]) => ({ at: time, id })));
  };
/** The answer to the first request for `a` that was accepted. */
export const denied =
  (answer: Partial<SeenEntry>): Change =>
  (run) => {
    run.entries = run.entries.map((one) =>
      one.at === 100_000 && one.data['ref'] === 'marker.a' ? { ...one, ...answer } : one,
    );
  };
export const cut =
  (platform: 'apns' | 'fcm', at: number): Change =>
  ({ injected }) =>
    injected.cuts.push({ platform, at });
/** The job of `a` has an attempt that ended with a reset. */
export const reset = (at: number): Change => {
  const attempts = [{ at, device: 'apns#0', error: 'reset: socket hang up' }];
  return ended('a', completedOf('a', 'delivered', { ran: { requeues: 1, attempts } }));
};
/** A worker says that it did not renew a job's lock in time. */
export const lostLock = (jobId: string, at: number): Change => {
  const msg = 'locks were not renewed in time: 1 job went to other workers, or will';
  const line = JSON.stringify({ level: 'warn', time: new Date(at), jobIds: [jobId], msg });
  return ({ logs }) => logs.set('worker-1.log', parseLog(line));
};
export const standstill = (worker: string, from: number, until: number): Change => {
  return ({ delays }) => delays.note(worker, JSON.stringify({ msg: 'standstill', from, until }));
};
/** A worker logged the end of a pass of `a`. */
export const passed = (worker: string, outcome = 'delivered'): Change => {
  return ({ delays }) => delays.note(worker, JSON.stringify({ jobId: 'a', id: 'a', outcome }));
};
/** What a worker logs of a breaker that this answer opened. */
export const breaker =
  (code: string): Change =>
  (run) => {
    const metrics = { breakerOpened: () => undefined, breakerTrial: () => undefined };
    const log = createLog('info', { write: (line) => void run.logs.set('worker-1.log', parseLog(line)) });
    const open = { service: 'fcm', trouble: 'auth', code, since: 0, until: 1 } as const;
    createBreakerListener({ metrics, log })({ service: open.service, open, before: undefined });
  };
/** A master was killed, and slots moved. */
export const cluster =
  (more: Partial<Forgetting> = {}, waitReplicas = 0): Change =>
  (run) => {
    run.injected.failovers = [{ ...FAILOVER, ...more }];
    run.injected.slotsMoved = [{ slot: 1, keys: 7 }];
    run.cluster = { waitReplicas };
  };
/** `b`, and one that is found nowhere. */
export const acknowledged =
  (at: number): Change =>
  (run) => {
    for (const id of ['b', 'z']) run.enqueued.set(id, { ...enqueuedOf(id), acknowledgedAt: at });
  };
export const twice = (first: number, second: number): Change => seen('a', entryOf('a', first), entryOf('a', second));
export const twoAt =
  (first: number, second: number): Change =>
  (run) => {
    seen('a', entryOf('a', first))(run);
    seen('b', entryOf('b', second))(run);
  };
/** A worker logged the end of a pass. */
export const logged = (at: number, id: string): Change => {
  const pass = { level: 'info', time: new Date(at), jobId: `${id}#r1`, outcome: 'requeued', msg: 'requeued' };
  return ({ logs }) =>
    logs.get('worker-0.log')?.push(...parseLog(`(node:1) Warning: no JSON\n${JSON.stringify(pass)}\n{"half`));
};
/** Nobody knows of the cancel any more. */
export const uncancel: Change = ({ cancels }) => cancels.delete('canceled');
export const canceling =
  (from: number, until: number): Change =>
  ({ canceledAt }) =>
    canceledAt.set('a', { from, until });
export const lacking = (id: string, at: number) => ({ admissions: [{ id, at }] });
export const uncounted =
  (kind: keyof Run['injected']['counts']): Change =>
  (run) => {
    run.injected.counts = { ...run.injected.counts, [kind]: 0 };
  };
export const nothing: Change = (run) => {
  for (const all of [run.enqueued, run.cancels, run.logs]) all.clear();
  Object.assign(run, { entries: [], ends: { completed: [], dead: [], queued: [] } });
};

/** What the judge finds in a right run with these changes: `broken` are the checks that report it. */
export function judged(...changes: readonly Change[]) {
  const run = rightRun();
  for (const change of changes) change(run);
  const { result, troubles } = judgeRun(run, { seed: 1, seconds: 20, cluster: run.cluster });
  const named = Object.values(troubles).flat();
  return { result, named, broken: checks(result).flatMap(({ what, ok }) => (ok ? [] : [what])) };
}

/** With the check that must report it. */
export type Seeded = readonly [what: string, changes: readonly Change[], check: string];
/** What is no fault, with where it is counted. */
export type Excused = readonly [what: string, changes: readonly Change[], counts: object];
