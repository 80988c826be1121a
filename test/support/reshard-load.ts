import { setTimeout as sleep } from 'node:timers/promises';
import type { Queue } from 'bullmq';
import type { Cluster, Redis } from 'ioredis';
import { expect } from 'vitest';
import { judge, type Arrival } from '../../sandbox/judge.ts';
import type { ProvidersProcess } from '../../demo/providers-process.ts';
import type { SeenEntry } from '../../demo/providers-child.ts';
import { tokenOf } from '../../src/notification/device.ts';
import type { Policy } from '../../src/domain/limits.ts';
import type { NotificationInput } from '../../src/notification/notification.ts';
import { prefixesOf, readLayout } from '../../src/queue/shards/layout.ts';
import { outcomesKey } from '../../src/queue/names.ts';
import type { Producer } from '../../src/producer/producer.ts';
import { makeDevice, makeNotification } from './push.ts';

/** A load of every kind of notification while the number of shards changes, judged by outcomes and by what arrived. */

export interface Load {
  /** Of every notification: its recipient. */
  readonly sent: ReadonlyMap<string, string>;
  stop(): Promise<void>;
}

export interface LoadParts {
  readonly producer: Producer;
  /** A producer that knows the first number of shards only: plain BullMQ. */
  readonly older: Queue;
  readonly providers: ProvidersProcess;
  readonly recipients: number;
  /** The wait between two rounds, in milliseconds. */
  readonly everyMs: number;
}

const GONE = { kind: 'refuse', status: 410, reason: 'Unregistered' } as const;
/** What a test enqueues at the most, whatever the machine takes for the rest. */
const MOST = 4_000;

/** Enqueues until it is stopped. What it cancels is canceled twice as often as not before it is sent. */
export function startLoad({ producer, older, providers, recipients, everyMs }: LoadParts): Load {
  const sent = new Map<string, string>();
  const stopping = new AbortController();

  async function round(number: number): Promise<void> {
    const recipientId = `teacher-${number % recipients}`;
    const make = (kind: string, fields: Partial<NotificationInput> = {}): NotificationInput => {
      const id = `${kind}-${number}`;
      sent.set(id, recipientId);
      return makeNotification({ id, recipientId, data: { ref: id }, ...fields });
    };
    const after = (ms: number): string => new Date(Date.now() + ms).toISOString();
    const inputs = [make('plain')];
    if (number % 2 === 0) inputs.push(make('delayed', { sendAfter: after((number % 7) * 5_000) }));
    if (number % 3 === 0) inputs.push(make('latest', { onThrottle: 'latest', collapseId: 'score' }));
    if (number % 5 === 0) {
      const digest = { key: 'thread-77', title: 'Class 7b', body: '{{count}} new messages' };
      inputs.push(make('digest', { onThrottle: 'digest', digest }));
    }
    if (number % 4 === 0) {
      inputs.push(make('canceled', { sendAfter: after(20_000), cancellationKey: `trip-${number}` }));
    }
    if (number % 9 === 0) {
      const device = makeDevice('apns');
      await providers.script('apns', tokenOf(device), [GONE]);
      inputs.push(make('dead', { devices: [device] }));
    }
    const results = await producer.enqueueMany(inputs);
    expect(results.filter(({ kind }) => kind !== 'added')).toEqual([]);
    const again = await producer.enqueueMany(inputs.slice(0, 1)); // as after an error of the network
    expect(again.map(({ kind }) => kind)).toEqual(['duplicate']);
    const foreign = make('older');
    await older.add('push', foreign, { jobId: foreign.id, priority: 10 });
    if (number >= 20 && (number - 20) % 4 === 0) {
      const key = { recipientId: `teacher-${(number - 20) % recipients}`, cancellationKey: `trip-${number - 20}` };
      await producer.cancel(key);
    }
  }

  const running = (async () => {
    for (let number = 0; !stopping.signal.aborted && sent.size < MOST; number += 1) {
      await round(number);
      await sleep(everyMs);
    }
  })();
  running.catch(() => undefined); // `stop` rejects
  return {
    sent,
    stop: () => {
      stopping.abort();
      return running;
    },
  };
}

/** The outcomes in the streams of all queues that ever were: those of each id. */
export async function outcomesOf(redis: Redis | Cluster, prefix: string): Promise<Map<string, string[]>> {
  const layout = await readLayout(redis, prefix);
  const found = new Map<string, string[]>();
  for (const of of layout === undefined ? [prefix] : prefixesOf(layout)) {
    for (const [, fields] of await redis.xrange(outcomesKey(of), '-', '+')) {
      const [id, outcome] = ['id', 'outcome'].map((name) => fields[fields.indexOf(name) + 1] ?? '');
      found.set(id ?? '', [...(found.get(id ?? '') ?? []), outcome ?? '']);
    }
  }
  return found;
}

/** Every notification has ended once, those that were delivered alerted once, the others never, and no limit was broken. */
export function expectExactlyOnce(
  sent: ReadonlyMap<string, string>,
  outcomes: ReadonlyMap<string, readonly string[]>,
  accepted: readonly SeenEntry[],
  policy: Policy,
): void {
  const ended = [...sent.keys()].map((id) => [id, (outcomes.get(id) ?? []).join()] as const);
  expect(ended.filter(([, outcome]) => outcome === '' || outcome.includes(','))).toEqual([]);
  const arrivals = accepted.map(({ token, data, at, delayMs }): Arrival => {
    const notificationId = data['ref'] ?? '';
    return { recipientId: sent.get(notificationId) ?? 'nobody', notificationId, device: token, at, delayMs };
  });
  const alerts = Map.groupBy(arrivals, ({ notificationId }) => notificationId);
  const wrong = ended.filter(([id, outcome]) => (alerts.get(id) ?? []).length !== (outcome === 'delivered' ? 1 : 0));
  expect(wrong.map(([id, outcome]) => [id, outcome, (alerts.get(id) ?? []).length])).toEqual([]);
  expect(judge(arrivals, policy)).toMatchObject({ gapViolations: 0, windowViolations: 0, duplicates: 0 });
}
