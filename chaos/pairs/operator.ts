import { execFile } from 'node:child_process';
import { extname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Redis } from 'ioredis';
import { quietNow } from '../../demo/morning.ts';
import { arrivalInstant } from '../../sandbox/journal.ts';
import { createDeadLetters, type DeadLetters } from '../../src/dead-letters/store.ts';
import type { StoredDeadLetter } from '../../src/dead-letters/letter.ts';
import { apartOptions } from '../../src/limiter/limiter.ts';
import type { Action } from '../../src/limiter/foresee.ts';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { act, type ActionParts } from '../../src/operations/actions.ts';
import { createShards } from '../../src/queue/shards/shards.ts';
import { createProducer, type EnqueueInput, type Producer } from '../../src/producer/producer.ts';
import { jobIdOf } from '../../src/queue/names.ts';
import type { Act } from './acts.ts';
import { lifeAt, type Done, type End, type Life } from './facts.ts';
import { nameOfLetter } from './ends.ts';
import { BACKGROUND_POLICY, CATEGORIES, named, POLICY, STRICT_POLICY, type Item } from './workload.ts';

/** Enqueues, and does what operators do. Notes each answer. */
export interface Operator {
  readonly lives: readonly Life[];
  readonly done: readonly Done[];
  /** What ended jobs had returned that were removed so that their ids are free. */
  readonly forgotten: readonly End[];
  enqueue(items: readonly Item[]): Promise<void>;
  perform(act: Act): Promise<void>;
  /** Ends all blocks, limits and quiet hours. */
  lift(recipientIds: readonly string[]): Promise<void>;
  /** Replays all dead letters that there are; answers how many. */
  replayAll(): Promise<number>;
  close(): Promise<void>;
}

interface OperatorOptions {
  readonly redis: Redis;
  readonly redisUrl: string;
  readonly prefix: string;
  readonly marker: string;
}

/** The candidates of an act are the latest notifications, so many of all, or of a kind. */
const RECENT = 70;
const RECENT_OF_KIND = 25;
const RESHARD = fileURLToPath(new URL(`../../scripts/reshard${extname(import.meta.url)}`, import.meta.url));

export function openOperator({ redis, redisUrl, prefix, marker }: OperatorOptions): Operator {
  const producer = createProducer({ redisUrl, prefix });
  const shards = createShards(redis, { prefix, shards: 1 });
  const lives: Life[] = [];
  const done: Done[] = [];
  const forgotten: End[] = [];
  const apart = (kind: 'background' | 'liveactivity') =>
    createRedisLimiter({ redis, ...apartOptions(kind, BACKGROUND_POLICY.rules, prefix) });
  const limiters = {
    alert: createRedisLimiter({ redis, policy: POLICY, categories: CATEGORIES, prefix }),
    ...{ background: apart('background'), liveactivity: apart('liveactivity') },
  };
  const turns = new Map<string, Promise<unknown>>();
  /** Acts on the same id or recipient come one after the other, so that it is known which came first. */
  const inTurn = <T>(name: string, work: () => Promise<T>): Promise<T> => {
    const turn = (turns.get(name) ?? Promise.resolve()).catch(() => undefined).then(work);
    turns.set(name, turn);
    return turn;
  };
  const timed = async <T>(work: () => Promise<T>): Promise<{ from: number; until: number; answer: T }> => {
    const from = arrivalInstant();
    const answer = await work();
    return { from, until: arrivalInstant(), answer };
  };

  async function add(inputs: readonly (Item['input'] & { readonly life: string })[]): Promise<boolean[]> {
    const given = inputs.map(({ life, ...input }) => named(input, life, marker) as EnqueueInput);
    const { from, until, answer } = await timed(() => producer.enqueueMany(given));
    return answer.map((one, index) => {
      const input = inputs[index];
      if (one.kind === 'invalid' || input === undefined)
        throw new TypeError(`a bad notification: ${JSON.stringify(one)}`);
      if (one.kind !== 'added') return false;
      const { life: name, ...its } = input;
      lives.push({ name, id: one.id, order: lives.length, input: its, askedAt: from, acknowledgedAt: until });
      return true;
    });
  }

  const recent = (fits: (life: Life) => boolean): Life[] => {
    const latest = new Map(lives.map((life) => [life.id, life]));
    return [...latest.values()].filter(fits).slice(-RECENT);
  };
  const wasCanceled = (id: string): boolean =>
    done.some((one) =>
      one.kind === 'failed'
        ? one.on !== undefined && 'id' in one.on && one.on.id === id
        : (one.kind === 'cancel-id' || one.kind === 'retract') && one.id === id && isStopped(one),
    );
  const deadNow = async (): Promise<{ letters: DeadLetters; stored: StoredDeadLetter }[]> => {
    const found = (await shards.open()).map(async (shard) => {
      const letters = createDeadLetters(shard);
      return (await letters.page(0, 1_000)).map((stored) => ({ letters, stored }));
    });
    return (await Promise.all(found)).flat();
  };

  async function candidates(of: Extract<Act, { kind: 'cancel-id' }>['of'] | 'ended'): Promise<Life[]> {
    if (of === 'dead') {
      const names = new Set((await deadNow()).map(({ stored }) => nameOfLetter(stored)));
      return recent(({ name }) => names.has(name));
    }
    if (of === 'canceled') return recent(({ id }) => wasCanceled(id));
    if (of === 'any' || of === 'ended') return recent(() => true);
    return recent(({ input }) => input.onThrottle === of).slice(-RECENT_OF_KIND);
  }

  /** Does something to one of the candidates, by its id. */
  async function onOne(
    { kind: act, of, pick }: Extract<Act, { kind: 'cancel-id' | 'retract-id' }>,
    work: (id: string) => Promise<Done>,
  ): Promise<void> {
    const life = pickOf(await candidates(of), pick);
    if (life === undefined) return;
    await inTurn(life.id, async () => done.push(await work(life.id).catch(failed(act, { id: life.id }))));
  }

  async function cancel(id: string): Promise<Done> {
    const { answer, ...asked } = await timed(() => producer.cancel({ id }));
    return { kind: 'cancel-id', id, ...answer, ...asked };
  }

  async function retract(id: string): Promise<Done> {
    const { answer, ...asked } = await timed(() => producer.retract({ id }));
    const { canceled, retracting, ended } = answer;
    return { kind: 'retract', id, canceled, retracting, ended, ...asked };
  }

  async function cancelKey(pick: number): Promise<void> {
    const life = pickOf(
      recent(({ input }) => input.cancellationKey !== undefined),
      pick,
    );
    const { recipientId, cancellationKey: key } = life?.input ?? {};
    if (recipientId === undefined || key === undefined) return;
    const canceled = timed(() => producer.cancel({ recipientId, cancellationKey: key })).then(
      ({ answer, ...asked }): Done => ({ kind: 'cancel-key', recipientId, key, ...answer, ...asked }),
    );
    done.push(await canceled.catch(failed('cancel-key', { recipientId, key })));
  }

  async function onRecipient(recipientId: string, action: Action): Promise<void> {
    await inTurn(recipientId, async () => {
      const queues = (await shards.homes(recipientId)).map(({ queue }) => queue);
      const parts: ActionParts = { limiters, policy: POLICY, queues };
      const { from, until } = await timed(() => act(recipientId, action, parts));
      const asked = { from, until };
      if (action.kind === 'block') done.push({ kind: 'block', recipientId, blockedUntil: action.until, ...asked });
      else done.push({ kind: action.kind, recipientId, ...asked });
    });
  }

  async function takeLetter(
    kind: 'replay' | 'discard',
    { letters, stored }: { letters: DeadLetters; stored: StoredDeadLetter },
  ): Promise<boolean> {
    const life = nameOfLetter(stored);
    return inTurn(life.replace(/@\d+$/, ''), async () => {
      const take = async (): Promise<boolean> =>
        kind === 'replay'
          ? (await letters.replay(stored)) !== undefined
          : (await letters.discard(stored.id)) === 'discarded';
      const { answer, ...asked } = await timed(take);
      const { id: letterId, letter } = stored;
      if (answer) done.push({ kind, life, letterId, generation: letter.generation, ...asked });
      return answer;
    });
  }

  async function replayAll(): Promise<number> {
    const taken = await Promise.all((await deadNow()).map((one) => takeLetter('replay', one)));
    return taken.filter(Boolean).length;
  }

  /** The waiting job of a notification, its replays too; or its ended one. */
  async function jobOf({ id, input }: Life, states: readonly string[]) {
    for (const { queue } of await shards.homes(input.recipientId)) {
      for (const jobId of [jobIdOf(id), ...[1, 2, 3].map((replay) => `${jobIdOf(id)}#r${replay}`)]) {
        const state = await queue.getJobState(jobId);
        if (!states.includes(state)) continue;
        const job = await queue.getJob(jobId);
        if (job !== undefined) return { jobId, job };
      }
    }
    return undefined;
  }

  async function remove(of: Extract<Act, { kind: 'remove' }>['of'], pick: number): Promise<void> {
    const waiting = [];
    for (const life of await candidates(of)) {
      if (await jobOf(life, ['prioritized', 'delayed', 'waiting'])) waiting.push(life);
    }
    const life = pickOf(waiting, pick);
    if (life === undefined) return;
    await inTurn(life.id, async () => {
      const found = await jobOf(life, ['prioritized', 'delayed', 'waiting']);
      if (found === undefined) return;
      // Refused if a worker has taken it since.
      const { answer, ...asked } = await timed(() =>
        found.job.remove().then(
          () => true,
          () => false,
        ),
      );
      const name = lifeAt(lives, life.id, asked.from)?.name ?? life.name;
      if (answer) done.push({ kind: 'remove', life: name, jobId: found.jobId, ...asked });
    });
  }

  /** Its first job alone: an id with dead letters stays taken. */
  async function again(state: 'waits' | 'ended', pick: number): Promise<void> {
    const life = pickOf(state === 'waits' ? await candidates('any') : await endedLives(), pick);
    if (life === undefined) return;
    await inTurn(life.id, async () => {
      if (state === 'ended' && !(await forget(life))) return;
      const number = lives.filter(({ id }) => id === life.id).length + 1;
      const from = arrivalInstant();
      const input = { ...life.input };
      delete input.sendAfter;
      delete input.expiresAt;
      const [added = false] = await add([{ ...input, id: life.id, life: `${life.id}@${number}` }]);
      done.push({ kind: 'again', id: life.id, added, from, until: arrivalInstant() });
    });
  }

  async function endedLives(): Promise<Life[]> {
    const ended: Life[] = [];
    for (const life of await candidates('ended')) {
      const removed = done.some((one) => one.kind === 'remove' && one.life === life.name && !one.jobId.includes('#'));
      if (!wasCanceled(life.id) && (removed || (await jobOf(life, ['completed'])))) ended.push(life);
    }
    return ended;
  }

  /** Removes the ended job. False if there is none any more, or it was canceled: such an id stays canceled for a week. */
  async function forget(life: Life): Promise<boolean> {
    const found = await jobOf(life, ['completed']);
    if (found === undefined) return true; // removed by hand while it waited
    const { job, jobId } = found;
    const { outcome = 'none', ...ended } = (job.returnvalue ?? {}) as Partial<End>;
    if (jobId.includes('#') || outcome === 'canceled' || wasCanceled(life.id)) return false;
    const { answer, ...asked } = await timed(() =>
      job.remove().then(
        () => true,
        () => false,
      ),
    );
    if (!answer) return false;
    const name = lifeAt(lives, life.id, job.timestamp)?.name ?? life.name;
    const at = job.finishedOn ?? asked.from;
    forgotten.push({ ...ended, life: name, generation: 0, outcome, at, from: 'job' });
    done.push({ kind: 'forget', life: name, ...asked });
    return true;
  }

  async function reshard(to: number): Promise<void> {
    for (const number of [to, 1]) {
      const { answer: code, ...asked } = await timed(() => runReshard(number, redisUrl, prefix));
      done.push({ kind: 'reshard', to: number, code, ...asked });
    }
  }

  function perform(one: Act): Promise<void> {
    switch (one.kind) {
      case 'cancel-id':
        return onOne(one, cancel);
      case 'cancel-key':
        return cancelKey(one.pick);
      case 'retract-id':
        return onOne(one, retract);
      case 'block':
        return onRecipient(one.recipientId, { kind: 'block', until: Date.now() + one.forMs, reason: 'the run' });
      case 'limit':
        return onRecipient(one.recipientId, { kind: 'limit', policy: STRICT_POLICY });
      case 'quiet':
        return onRecipient(one.recipientId, { kind: 'quiet', hours: quietNow(Date.now()) });
      case 'unblock':
      case 'unlimit':
      case 'unquiet':
      case 'reset':
        return onRecipient(one.recipientId, { kind: one.kind });
      case 'replay-all':
        return replayAll().then(() => undefined);
      case 'replay-one':
      case 'discard-one':
        return deadNow().then(async (all) => {
          const found = pickOf(all, one.pick);
          if (found !== undefined) await takeLetter(one.kind === 'replay-one' ? 'replay' : 'discard', found);
        });
      case 'remove':
        return remove(one.of, one.pick);
      case 'again':
        return again(one.state, one.pick);
      case 'reshard':
        return reshard(one.to);
    }
  }

  return {
    lives,
    done,
    forgotten,
    replayAll,
    enqueue: (items) => enqueueAll(items, add),
    async perform(one) {
      const ofFailure = failed(one.kind);
      await perform(one).catch((error: unknown) => done.push(ofFailure(error)));
    },
    async lift(recipientIds) {
      for (const kind of ['unblock', 'unlimit', 'unquiet'] as const) {
        await Promise.all(recipientIds.map((recipientId) => onRecipient(recipientId, { kind })));
      }
    },
    async close() {
      await closeAll(producer, shards);
    },
  };
}

type Failed = Extract<Done, { kind: 'failed' }>;

/** Call it before the act. */
function failed(act: Act['kind'], on?: Failed['on']): (error: unknown) => Failed {
  const from = arrivalInstant();
  return (error) => ({ kind: 'failed', act, error: String(error), ...(on && { on }), from, until: arrivalInstant() });
}

/** The limiter has it as canceled, or it may have. */
function isStopped(one: Extract<Done, { kind: 'cancel-id' | 'retract' }>): boolean {
  return one.canceled > 0 || (one.kind === 'retract' && one.retracting > 0);
}

async function closeAll(producer: Producer, shards: { close(): Promise<void> }): Promise<void> {
  await Promise.all([producer.close(), shards.close()]);
}

function pickOf<T>(from: readonly T[], pick: number): T | undefined {
  // Towards the latest: they are the likeliest to wait.
  return from[from.length - 1 - Math.floor(pick * pick * from.length)];
}

const TICK_MS = 20;

/** Each at its time; those that are due together in one call. */
async function enqueueAll(
  items: readonly Item[],
  add: (inputs: readonly (Item['input'] & { readonly life: string })[]) => Promise<boolean[]>,
): Promise<void> {
  const startedAt = performance.now();
  const left = [...items];
  while (left.length > 0) {
    const nowMs = performance.now() - startedAt;
    const count = left.findIndex(({ atMs }) => atMs > nowMs);
    const due = left.splice(0, count < 0 ? left.length : count);
    const now = Date.now();
    const inputs = due.map(({ input, sendAfterMs, expiresInMs }) => ({
      ...input,
      life: input.id,
      ...(sendAfterMs !== undefined && { sendAfter: now + sendAfterMs }),
      ...(expiresInMs !== undefined && { expiresAt: now + expiresInMs }),
    }));
    if (inputs.length > 0) await add(inputs);
    await sleep(TICK_MS);
  }
}

/** Answers its exit code. */
function runReshard(to: number, redisUrl: string, prefix: string): Promise<number> {
  const env = { ...process.env, REDIS_URL: redisUrl, QUEUE_PREFIX: prefix };
  return new Promise((resolve) => {
    execFile(process.execPath, [RESHARD, '--to', String(to), '--json'], { env }, (error) => {
      resolve(error === null ? 0 : typeof error.code === 'number' ? error.code : 1);
    });
  });
}
