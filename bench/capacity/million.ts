import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { EnqueueInput } from '../../src/producer/producer.ts';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { pump } from '../limiter/cases.ts';
import { PREFIX } from '../redis.ts';
import { wholeOf } from '../suite.ts';
import type { Count } from '../throughput/providers.ts';
import { ALERT, deviceOf, startWorker, type MeasuredWorker } from '../throughput/run.ts';
import type { Check } from './check.ts';
import type { Surroundings } from './measure.ts';
import { bytesOfRecipient, DEFAULT_PLAN, MEASURED, waitingBytes } from './model.ts';
import { onStage, type Shape, type Stage } from './stage.ts';

/** Many that wait for their slots on a cluster, and some of them that become due. */
export interface MillionSize {
  readonly recipients: number;
  /** How many wait for each. */
  readonly line: number;
  /** How many lines begin while lateness is measured, and how many a second. */
  readonly due: number;
  readonly perSecond: number;
}

export const MILLION: MillionSize = { recipients: 100_000, line: 10, due: 8_000, perSecond: 200 };
export const QUICK_MILLION: MillionSize = { recipients: 2_000, line: 10, due: 400, perSecond: 100 };

export interface Million {
  readonly waiting: number;
  readonly checks: readonly Check[];
  /** How late due alerts arrived: on queues that were otherwise empty, and beside all that wait. */
  readonly lateBefore: Count['late'];
  readonly late: Count['late'];
  /** Notifications a second that the workers put back until their slots, on this machine. */
  readonly putBackPerSecond: number;
}

const SHAPE: Shape = { masters: 3, replicas: 0, shards: 4 };
const WORKERS = 2;
/** Slots of a line are two hours apart, so that only those are due that a block holds back until then. */
const WINDOW_MS = 7_200_000;
const LIMITS = { LIMIT_RULES: '1/2h', LIMIT_MIN_GAP: '0' };
/** Between what becomes due and its being put back there must be so much time at least. */
const LEAD_MS = 10_000;
/** With fewer, the memory of a worker is not that of a steady state. */
const LEAST_WAITING = 500_000;
const POLL_MS = 500;
/** If nothing changes for so long, the run fails. */
const STUCK_MS = 120_000;

export function runMillion(size: MillionSize, { counters, dir, say }: Surroundings): Promise<Million> {
  const waiting = size.recipients * size.line;
  const count = (value: number): string => wholeOf(value);
  return onStage(SHAPE, async (stage) => {
    await using workers = new AsyncDisposableStack();
    const env = { ...counters.env, ...stage.env, ...LIMITS };
    const all: MeasuredWorker[] = [];
    for (let index = 0; index < WORKERS; index += 1) {
      const logFile = join(dir, `worker-${index}.log`);
      all.push(await startWorker({ side: 'pushpacer', platform: 'fcm', env, logFile }));
    }
    workers.defer(async () => {
      await Promise.all(all.map((worker) => worker.stop()));
    });
    const parts = { stage, workers: all, size, say };

    /** Has `due` lines begin at the rate; resolves with the providers' count once the first of each has arrived. */
    const measureDue = async (batch: string, line: number, leadMs: number, then: () => Promise<void>) => {
      await counters.reset();
      const startAt = Date.now() + leadMs;
      const dueAt = (index: number): number => Math.round(startAt + (1_000 * index) / size.perSecond);
      await block(stage, batch, size.due, dueAt);
      await stage.enqueue(linesOf(batch, size.due, { dueAt }));
      await untilDelayed(0, parts); // before the rest is there: the workers ask in any order, and who asks first is due first
      await stage.enqueue(linesOf(batch, size.due, { from: 1, to: line }));
      await then();
      if (Date.now() > startAt) say(`what is due is late: it began ${Date.now() - startAt} ms before all was put back`);
      return untilDue(size.due, dueAt(size.due), parts, () => counters.report());
    };

    say(`${count(size.due)} alerts become due, ${size.perSecond} a second, and nothing else waits`);
    const before = await measureDue('before', 1, LEAD_MS + size.due, () => untilDelayed(0, parts));
    const empty = await stage.usage();

    const openers = size.recipients - size.due;
    const parked = openers * size.line;
    say(`enqueues ${count(parked + openers)} for ${count(openers)} people; the first of each is sent, the others wait`);
    const startAt = performance.now();
    const enqueuing = stage.enqueue(linesOf('line', openers, { to: size.line + 1 }), (done) => {
      if (done % 50_000 === 0) say(`enqueued ${count(done)}`);
    });
    const fewWait = untilDelayed(parked / 10, parts, false).then(() => memoryOf(all));
    const [rssOfFew] = await Promise.all([fewWait, enqueuing]);
    await untilDelayed(parked, parts);
    const perSecond = (1_000 * parked) / (performance.now() - startAt);

    const leadMs = LEAD_MS + (2_000 * size.due * size.line) / perSecond;
    say(
      `${count(size.due)} lines of ${size.line} begin in ${(leadMs / 1_000).toFixed(0)} s, ${size.perSecond} a second`,
    );
    const checks: Check[] = [];
    const after = await measureDue('due', size.line, leadMs, async () => {
      await untilDelayed(parked, parts); // once no job waits for a worker, all wait for their slots
      const used = await stage.usage();
      checks.push({
        name: 'bytes of Redis, all masters',
        kind: 'bytes',
        measured: used.bytes - empty.bytes,
        model: modelBytes(size),
      });
      for (const [index, measured] of (await memoryOf(all)).entries()) {
        const name = `memory of worker ${index + 1}`;
        const noted = (MEASURED.notedBytes * parked) / WORKERS;
        // A worker that has had few jobs yet still grows by its work.
        const kind = waiting >= LEAST_WAITING ? 'bytes' : 'time';
        const model = (rssOfFew[index] ?? NaN) + 0.9 * noted; // a tenth was noted by then
        checks.push({ name: `${name}, after a tenth of it`, kind, measured, model });
        checks.push({ name, kind: 'bound', measured, model: MEASURED.workerBytes + noted });
      }
    });
    return { waiting, checks, lateBefore: before.late, late: after.late, putBackPerSecond: perSecond };
  });
}

/** What the model says that was added: all that waits, and the alerts that were sent, with their recipients. */
function modelBytes({ recipients, line, due }: MillionSize): number {
  const sent = recipients - due;
  const aKey = MEASURED.clusterKeyBytes;
  const each = waitingBytes({ ...DEFAULT_PLAN, ...SHAPE, waits: 1, line });
  return recipients * line * each + sent * (MEASURED.deliveredBytes + bytesOfRecipient(1) + 2 * aKey);
}

interface Places {
  /** Default: 0 to 1, the first of each line. */
  readonly from?: number;
  readonly to?: number;
  /** Each says when it is due. */
  readonly dueAt?: (index: number) => number;
}

/** The alerts of each recipient at these places of its line: first the first of all, then the second of all. */
function* linesOf(batch: string, recipients: number, { from = 0, to = 1, dueAt }: Places): Generator<EnqueueInput> {
  for (let place = from; place < to; place += 1) {
    for (let index = 0; index < recipients; index += 1) {
      yield {
        id: `${batch}-${place * recipients + index}`,
        recipientId: recipientOf(batch, index),
        devices: [deviceOf('fcm', index)],
        alert: ALERT,
        ...(dueAt !== undefined && { data: { due: String(dueAt(index)) } }),
      };
    }
  }
}

function recipientOf(batch: string, index: number): string {
  return `teacher-${batch}-${index}`;
}

/** So all of a recipient's alerts wait until then, in a line. */
async function block(stage: Stage, batch: string, recipients: number, until: (index: number) => number): Promise<void> {
  const policy = { rules: [{ max: 1, perMs: WINDOW_MS }], minGapMs: 0 };
  const limiter = createRedisLimiter({ redis: stage.connection, prefix: PREFIX, policy });
  await pump(recipients, (index) => limiter.block(recipientOf(batch, index), { until: until(index), reason: 'bench' }));
}

interface Parts {
  readonly stage: Stage;
  readonly workers: readonly MeasuredWorker[];
  readonly size: MillionSize;
  readonly say: (line: string) => void;
}

function memoryOf(workers: readonly MeasuredWorker[]): Promise<number[]> {
  return Promise.all(workers.map((worker) => worker.rssBytes()));
}

/** Resolves once so many wait for their slots and, if it `isDrained`, no job waits for a worker. */
async function untilDelayed(expected: number, { stage, workers, say }: Parts, isDrained = true): Promise<void> {
  let [latest, changedAt, saidAt] = [-1, performance.now(), performance.now()];
  for (;;) {
    const delayed = await stage.count('delayed');
    if (delayed >= expected && (!isDrained || (await stage.count('prioritized', 'wait', 'active')) === 0)) return;
    for (const worker of workers) await worker.expectAlive();
    if (delayed !== latest) [latest, changedAt] = [delayed, performance.now()];
    if (performance.now() - changedAt > STUCK_MS) throw new Error(`expected ${expected} to wait, found ${delayed}`);
    if (performance.now() - saidAt > 10_000) {
      saidAt = performance.now();
      say(`wait for their slots: ${wholeOf(delayed)} of ${wholeOf(expected)}`);
    }
    await sleep(POLL_MS);
  }
}

/** Resolves with the count once all that is due has arrived. */
async function untilDue(due: number, lastAt: number, { workers }: Parts, report: () => Promise<Count>): Promise<Count> {
  for (;;) {
    const found = await report();
    if (found.late.count >= due) return found;
    for (const worker of workers) await worker.expectAlive();
    if (Date.now() > lastAt + STUCK_MS) {
      throw new Error(`expected ${due} due alerts, found ${found.late.count} of ${found.accepted} that arrived`);
    }
    await sleep(POLL_MS);
  }
}
