import { hostname } from 'node:os';
import type { Queue } from 'bullmq';
import type { Breakers } from '../src/breaker/breaker.ts';
import type { Config } from '../src/config/config.ts';
import { createCancelProcessor } from '../src/delivery/cancel.ts';
import { readProgress, type ReplyEvent } from '../src/delivery/context.ts';
import { createProcessor } from '../src/delivery/deliver.ts';
import { giveBack } from '../src/delivery/slot.ts';
import type { Recording } from '../src/delivery/story.ts';
import { accountOf, serviceOfDevice, tokenOf } from '../src/domain/device.ts';
import type { CountedApart } from '../src/domain/limits.ts';
import { needsOperator } from '../src/domain/outcome.ts';
import { errorChain } from '../src/domain/redact.ts';
import { apartOptions, forEachKind, type WaitingLimiter } from '../src/limiter/limiter.ts';
import { paceOf } from '../src/limiter/pace.ts';
import { createCanceller, createEndLook } from '../src/limiter/redis/canceller.ts';
import { createClock, keepClock } from '../src/limiter/redis/clock.ts';
import { recipientKeys } from '../src/limiter/redis/keys.ts';
import { createWaitingLimiter, type WaitingLimiterOptions } from '../src/limiter/redis/redis-limiter.ts';
import { createSparing, type Logger } from '../src/observe/log.ts';
import type { Metrics } from '../src/observe/metrics.ts';
import { openTracing, wantsTraces } from '../src/observe/tracing.ts';
import type { Environment } from '../src/environment/values.ts';
import type { Reply } from '../src/providers/provider.ts';
import { lastMovedTo } from '../src/queue/bullmq-internals.ts';
import { cancelWaiting } from '../src/queue/cancel.ts';
import { createCancellationIndex } from '../src/queue/cancellation-index.ts';
import { createHistory } from '../src/queue/history.ts';
import { redelay, type Due } from '../src/queue/job-lock.ts';
import { homesOf, type Layout } from '../src/queue/layout.ts';
import { CANCEL, destinationOf } from '../src/queue/names.ts';
import { createOtherWorkers } from '../src/queue/workers.ts';
import { createOutcomes, reportInvalidToken, type Outcomes } from '../src/queue/outcomes.ts';
import { LimiterUnavailableError } from '../src/redis/deadline.ts';
import { createReplicaWait, ReplicasMissingError, type Confirm, type ReplicaWait } from '../src/redis/replicas.ts';
import { addressOf } from '../src/redis/target.ts';
import type { Accounts } from './accounts.ts';
import type { ConsumerOptions } from './consumer.ts';
import { LIMITER_TIMEOUT_MS, TROUBLE_EVERY_MS, type Connections } from './redis.ts';

interface PassParts {
  readonly connections: Connections;
  readonly accounts: Accounts;
  readonly breakers: Breakers;
  /** All that this replica consumes. */
  readonly queues: readonly Queue[];
  readonly layout: () => Layout;
  /** Called with a job that another worker has by now. */
  readonly onLockLost: (jobId: string) => void;
  /** Fires when the grace period of a stop is over. */
  readonly signal: AbortSignal;
  readonly metrics: Metrics;
  readonly log: Logger;
  readonly closing: AsyncDisposableStack;
  /** Says whether traces are wanted. */
  readonly env: Environment;
}

/** What a pass does with its job: a notification is delivered, a job named `cancel` cancels what waits; and what ended without a pass. */
export async function createPasses(
  config: Config,
  parts: PassParts,
): Promise<Pick<ConsumerOptions, 'process' | 'completed' | 'giveBack'>> {
  const { connections, accounts, breakers, queues, layout, onLockLost, signal, metrics, log, closing, env } = parts;
  const { policy, categories, quietHours, apartRules, maxWaitMs, maxPending, retry, atMostOnce } = config;
  const { prefix } = config.queue;
  const homes = (recipientId: string): readonly string[] => homesOf(recipientId, layout());

  const clock = createClock();
  const clockKeeper = keepClock(clock, connections.limiter);
  closing.defer(() => clockKeeper.stop());
  await clockKeeper.measured;
  const limiterParts = { redis: connections.limiter, clock, timeoutMs: LIMITER_TIMEOUT_MS };
  const replicas = config.waitReplicas.count > 0 ? replicaWaitOf(config, parts) : undefined;
  const limiterOf = (options: WaitingLimiterOptions): WaitingLimiter => {
    const limiter = timed(createWaitingLimiter(options), metrics);
    const keyOf = (recipientId: string): string => recipientKeys(prefix, recipientId).sent;
    return watched(replicas === undefined ? limiter : confirmed(limiter, (id) => replicas(keyOf(id))), metrics);
  };
  const apart = (kind: CountedApart) => limiterOf({ ...limiterParts, ...apartOptions(kind, apartRules[kind], prefix) });

  const canceller = { redis: connections.limiter, timeoutMs: LIMITER_TIMEOUT_MS };
  const deciders = forEachKind(prefix, (of) => createCanceller({ ...canceller, prefix: of }));
  const looks = forEachKind(prefix, (of) => createEndLook({ ...canceller, prefix: of }));
  const cancelParts = { connection: connections.queue, queues, homes, deciders };
  const cancelJob = createCancelProcessor((target) => cancelWaiting(target, cancelParts), { log, metrics });

  const outcomes = outcomesOf(config, parts);
  const recording = recordingOf(config, parts);
  const spans = { destination: destinationOf(prefix), isParent: config.tracesAreChildren };
  const tracing = wantsTraces(env) ? await openTracing(spans, (message) => log.warn(message)) : undefined;
  const waiting = {
    limiter: limiterOf({ ...limiterParts, policy, categories, quietHours, prefix }),
    apart: { background: apart('background'), liveactivity: apart('liveactivity') },
    toleranceMs: paceOf(policy).toleranceMs,
    redelay: async (recipientId: string, due: readonly Due[]) => {
      await redelay(among(queues, homes(recipientId)), due);
    },
  };
  const delivery = createProcessor({
    ...waiting,
    ...(outcomes && { outcomes }),
    ...(recording && { recording }),
    ...(tracing && { tracing }),
    overallGapMs: policy.minGapMs,
    index: createCancellationIndex(connections.queue, layout),
    endOf: ({ kind, ...ending }) => looks[kind](ending),
    quotas: accounts.quotas,
    providers: accounts.providers,
    others: createOtherWorkers(connections.queue, prefix),
    credentialsWaitMs: config.credentialsWaitMs,
    ...{ breakers, maxWaitMs, maxPending, retry, atMostOnce, signal, onLockLost, log, metrics },
    now: Date.now,
    random: Math.random,
    onReply: createReplyListener(prefix, parts),
  });
  return {
    process: (job, lock, place) => (job.name === CANCEL ? cancelJob(job, lock) : delivery.process(job, lock, place)),
    completed: delivery.completed,
    giveBack: async (failed) => {
      const progress = readProgress(failed.progress);
      return (await giveBack({ ...failed, progress }, 'dead', waiting)).progress.digest;
    },
  };
}

/** The queues with these prefixes, in their order. */
function among(queues: readonly Queue[], prefixes: readonly string[]): Queue[] {
  return prefixes.flatMap((prefix) => queues.find(({ opts }) => opts.prefix === prefix) ?? []);
}

/** The same limiter, with the time of each ask measured, also of those that got no answer. */
function timed(limiter: WaitingLimiter, metrics: Pick<Metrics, 'asked'>): WaitingLimiter {
  return {
    ...limiter,
    admit(ask) {
      const askedAt = performance.now();
      return limiter.admit(ask).finally(() => metrics.asked(performance.now() - askedAt));
    },
  };
}

/** The same limiter, with it noted whether its asks get slots. */
function watched(limiter: WaitingLimiter, { slots }: Pick<Metrics, 'slots'>): WaitingLimiter {
  return {
    ...limiter,
    async admit(ask) {
      try {
        const answer = await limiter.admit(ask);
        slots.asked(answer.kind === 'admitted' && !answer.repeated ? 'slot' : 'answer');
        return answer;
      } catch (error) {
        if (error instanceof ReplicasMissingError) slots.asked('replicas-missing');
        else if (error instanceof LimiterUnavailableError) slots.asked('limiter-unavailable');
        throw error;
      }
    },
  };
}

/** For so long the slowest confirmation counts; then the next one does. */
const SLOWEST_MS = 5_000;

/**
 * The same limiter, that admits only what replicas have too: an admission that a failover forgot would be given twice.
 *
 * It asks for a slot that lies as far ahead as confirmations take. Otherwise the slot is over when it is confirmed, and another one is
 * asked for and confirmed. A new id is admitted without a lead (admit.lua), so where confirmations are slow it asks twice.
 */
export function confirmed(limiter: WaitingLimiter, confirmOf: (recipientId: string) => Confirm): WaitingLimiter {
  let slowest = { tookMs: 0, at: -Infinity };
  return {
    ...limiter,
    async admit(ask) {
      const confirm = confirmOf(ask.recipientId);
      const leadMs = Math.max(ask.leadMs ?? 0, slowest.tookMs);
      const answer = await limiter.admit(leadMs > 0 ? { ...ask, leadMs } : ask);
      // Nobody sends on an admission that was given before.
      if (answer.kind !== 'admitted' || answer.repeated) return answer;
      const begun = performance.now();
      await confirm();
      const at = performance.now();
      if (at - begun >= slowest.tookMs || at - slowest.at > SLOWEST_MS) slowest = { tookMs: at - begun, at };
      return answer;
    },
  };
}

/** The wait for replicas, with a log of those that are missing. */
function replicaWaitOf(
  { waitReplicas }: Config,
  { connections, log }: Pick<PassParts, 'connections' | 'log'>,
): ReplicaWait {
  const sparing = createSparing(TROUBLE_EVERY_MS);
  const wait = createReplicaWait(connections.limiter, waitReplicas);
  return (key) => {
    const confirm = wait(key);
    return async () => {
      try {
        await confirm();
      } catch (error) {
        const reason = errorChain(error);
        const repeats = sparing(reason);
        if (repeats !== undefined) log.warn({ redis: addressOf(connections.limiter), reason, repeats }, NO_REPLICAS);
        throw error;
      }
    };
  };
}

const NO_REPLICAS =
  'replicas of Redis did not confirm a slot (REDIS_WAIT_REPLICAS): nothing is sent in it, and the notification is put back';

/** The stream of outcomes, with a log of what is lost; undefined where there is none. */
function outcomesOf(
  { outcomesMax: max, lockMs }: Config,
  { connections, layout, log }: Pick<PassParts, 'connections' | 'layout' | 'log'>,
): Outcomes | undefined {
  if (max === 0) return undefined;
  const sparing = createSparing(TROUBLE_EVERY_MS);
  return createOutcomes({
    redis: connections.queue,
    ...{ layout, max },
    insistMs: lockMs,
    onLost: ({ id, outcome }, error) => {
      const repeats = sparing(error instanceof Error ? error.message : String(error));
      if (repeats !== undefined) log.error({ id, outcome, err: error, repeats }, OUTCOMES_LOST);
    },
  });
}

const OUTCOMES_LOST =
  'Redis did not take an outcome for the stream of outcomes; its consumers do not see it, and the notification is ended all the same';

/** Stories of notifications, with a log of what is lost; undefined where none are recorded. */
function recordingOf(
  { history: { max, maxAgeMs }, lockMs }: Config,
  { connections, queues, layout, log }: Pick<PassParts, 'connections' | 'queues' | 'layout' | 'log'>,
): Recording | undefined {
  if (max === 0) return undefined;
  const sparing = createSparing(TROUBLE_EVERY_MS);
  const history = createHistory({
    redis: connections.queue,
    ...{ layout, max, maxAgeMs, insistMs: lockMs },
    onLost: ({ id, outcome }, error) => {
      const repeats = sparing(error instanceof Error ? error.message : String(error));
      if (repeats !== undefined) log.error({ id, outcome, err: error, repeats }, STORY_LOST);
    },
  });
  return {
    history,
    worker: `${hostname().slice(0, MAX_HOST)}:${process.pid}`,
    movedTo: async ({ jobId, notification }) => {
      for (const queue of among(queues, homesOf(notification.recipientId, layout()))) {
        const movedTo = await lastMovedTo(queue, jobId);
        if (movedTo !== undefined) return movedTo;
      }
      return undefined;
    },
  };
}

const MAX_HOST = 100;
const STORY_LOST =
  'Redis did not take the story of a notification that has ended: `why` cannot tell it; the notification is ended all the same';

/** Counts each reply, logs those that are no acceptance, and reports tokens that are gone or wrong to the producer. */
function createReplyListener(
  prefix: string,
  { connections, breakers, metrics, log }: PassParts,
): (event: ReplyEvent) => void | Promise<void> {
  return ({ notification, device, label, reply, tookMs }) => {
    metrics.reply(accountOf(device), reply.meaning, tookMs);
    if (reply.meaning === 'accepted') return;
    const { code, detail } = reply;
    const app = device.app !== undefined && { app: device.app };
    const names = { id: notification.id, recipientId: notification.recipientId, device: label, ...app };
    const line = { ...names, meaning: reply.meaning, code, ...(detail !== undefined && { detail }) };
    log[levelOf(reply)](line, messageOf(reply));

    if (reply.meaning !== 'gone' && reply.meaning !== 'bad-token') return;
    // While the breaker says that the app's configuration is wrong, a token may be a good one.
    const isMisconfigured = breakers.current(serviceOfDevice(device))?.trouble === 'configuration';
    if (reply.meaning === 'bad-token' && isMisconfigured) return;
    const entry = {
      recipientId: notification.recipientId,
      platform: device.platform,
      token: tokenOf(device),
      ...app,
      meaning: reply.meaning,
      reason: code,
      timestamp: reply.goneSince ?? Date.now(),
    };
    return reportInvalidToken(connections.queue, prefix, entry).catch((error: unknown) => {
      log.error({ ...names, err: error }, NOT_REPORTED);
    });
  };
}

const NOT_REPORTED =
  'an invalid token could not be reported to the stream of invalid tokens; the next alert to it reports it again';

/** An operator has to act on refused credentials, a producer on a refused alert; the rest is everyday. */
function levelOf({ meaning, trouble, setUp }: Reply): 'error' | 'warn' | 'info' {
  if (needsOperator(trouble) || setUp === true) return 'error';
  return meaning === 'bad-token' || meaning === 'rejected' ? 'warn' : 'info';
}

/** What comes next for the device. What comes next for the notification is in the line of the pass. */
function messageOf({ meaning, trouble, unsent, setUp }: Reply): string {
  if (setUp === true) return SET_UP;
  if (needsOperator(trouble))
    return 'the provider refuses the credentials or the app: deferred; the line of its circuit breaker tells what to do';
  if (unsent === true) return 'not sent to the device: tried again at no attempt';
  return MESSAGES[meaning];
}

const SET_UP =
  "Google's own key for such devices is missing or has expired, for many recipients: deferred at no attempt, for a day at most; " +
  "check the app's APNs key, or its web push key, in Firebase";

const MESSAGES: Readonly<Record<Reply['meaning'], string>> = {
  accepted: 'accepted',
  gone: 'the token is no longer valid: the device is not tried again, and the token is reported to the producer',
  'bad-token':
    'the token is not valid for this app: the device is not tried again, and the token is reported to the producer; check where ' +
    'the producer has it from',
  rejected: 'the provider refuses the alert: the device is not tried again; `code` and `detail` tell why',
  later:
    'the provider did not confirm the alert: the line of this pass tells whether and when the device is tried again',
};
