import { hostname } from 'node:os';
import type { Queue } from 'bullmq';
import type { Breakers } from '../src/breaker/breaker.ts';
import type { Config } from '../src/config/config.ts';
import type { Watcher } from '../src/delivery/context.ts';
import type { ReplyEvent } from '../src/delivery/parts.ts';
import { createRecorder } from '../src/delivery/story.ts';
import { createPassTracer } from '../src/delivery/trace.ts';
import { createPassCounter, createPassLog } from '../src/delivery/watch.ts';
import { accountOf, invalidOf, serviceOfDevice } from '../src/notification/device.ts';
import { needsOperator, type Outcome } from '../src/notification/outcome.ts';
import type { Environment } from '../src/environment/values.ts';
import { createSparing, type Logger } from '../src/observe/log.ts';
import type { Metrics } from '../src/observe/metrics.ts';
import { openTracing, wantsTraces } from '../src/observe/tracing.ts';
import type { Reply } from '../src/providers/provider.ts';
import { lastMovedTo } from '../src/queue/bullmq-internals.ts';
import { createHistory } from '../src/queue/history.ts';
import type { Layout } from '../src/queue/shards/layout.ts';
import { destinationOf } from '../src/queue/names.ts';
import { createOutcomes, reportInvalidToken } from '../src/queue/outcomes.ts';
import { TROUBLE_EVERY_MS, type Connections } from './redis.ts';

export interface WatcherParts {
  readonly connections: Connections;
  readonly breakers: Breakers;
  readonly layout: () => Layout;
  /** The queues in which the jobs of a recipient may be. */
  readonly queuesOf: (recipientId: string) => readonly Queue[];
  /** Called with a job that another worker has by now. */
  readonly onLockLost: (jobId: string) => void;
  readonly metrics: Metrics;
  readonly log: Logger;
  /** The environment, which says whether traces are wanted. */
  readonly env: Environment;
}

/** The watchers of passes, one on each line. Undefined: the configuration does not ask for this watcher. */
export async function createWatchers(config: Config, parts: WatcherParts): Promise<readonly Watcher[]> {
  const { metrics, log, onLockLost } = parts;
  const watchers = [
    recorderOf(config, parts),
    createPassCounter(metrics),
    await tracerOf(config, parts),
    createPassLog({ log, retry: config.retry, onLockLost }),
    outcomesOf(config, parts),
  ];
  return watchers.filter((watcher) => watcher !== undefined);
}

/** Records stories if HISTORY_MAX is set. */
function recorderOf(
  { history: { max, maxAgeMs }, lockMs }: Config,
  { connections, queuesOf, layout, log }: WatcherParts,
): Watcher | undefined {
  if (max === 0) return undefined;
  const onLost = createLossLog(log, STORY_LOST);
  return createRecorder({
    history: createHistory({ redis: connections.queue, layout, max, maxAgeMs, insistMs: lockMs, onLost }),
    worker: `${hostname().slice(0, MAX_HOST)}:${process.pid}`,
    movedTo: async ({ jobId, notification }) => {
      for (const queue of queuesOf(notification.recipientId)) {
        const movedTo = await lastMovedTo(queue, jobId);
        if (movedTo !== undefined) return movedTo;
      }
      return undefined;
    },
  });
}

const MAX_HOST = 100;
const STORY_LOST =
  'Redis did not take the story of a notification that has ended: `why` cannot tell it; the notification is ended all the same';

async function tracerOf(
  { queue: { prefix }, tracesAreChildren: isParent }: Config,
  { env, log }: WatcherParts,
): Promise<Watcher | undefined> {
  if (!wantsTraces(env)) return undefined;
  const tracing = await openTracing({ destination: destinationOf(prefix), isParent }, (message) => log.warn(message));
  return tracing && createPassTracer(tracing);
}

/** Writes the stream of outcomes if OUTCOMES_MAX is set. */
function outcomesOf(
  { outcomesMax: max, lockMs }: Config,
  { connections, layout, log }: WatcherParts,
): Watcher | undefined {
  if (max === 0) return undefined;
  const onLost = createLossLog(log, OUTCOMES_LOST);
  const outcomes = createOutcomes({ redis: connections.queue, layout, max, insistMs: lockMs, onLost });
  return { completing: (_, outcome) => outcomes.write(outcome) };
}

const OUTCOMES_LOST =
  'Redis did not take an outcome for the stream of outcomes; its consumers do not see it, and the notification is ended all the same';

/** Logs a story or an outcome that Redis did not take; the same error only from time to time. */
function createLossLog(log: Logger, message: string) {
  const sparing = createSparing(TROUBLE_EVERY_MS);
  return ({ id, outcome }: Pick<Outcome, 'id' | 'outcome'>, error: unknown): void => {
    const repeats = sparing(error instanceof Error ? error.message : String(error));
    if (repeats !== undefined) log.error({ id, outcome, err: error, repeats }, message);
  };
}

/** Counts each reply, logs replies that are not acceptances, and tells the producer which tokens are gone or wrong. */
export function createReplyListener(
  { queue: { prefix } }: Config,
  { connections, breakers, metrics, log }: Pick<WatcherParts, 'connections' | 'breakers' | 'metrics' | 'log'>,
): (event: ReplyEvent) => void | Promise<void> {
  return ({ notification, device, label, reply, tookMs }) => {
    metrics.reply(accountOf(device), reply.meaning, tookMs);
    if (reply.meaning === 'accepted') return;
    if (reply.isLimit === true) metrics.limited(serviceOfDevice(device));
    const { code, detail } = reply;
    const app = device.app !== undefined && { app: device.app };
    const names = { id: notification.id, recipientId: notification.recipientId, device: label, ...app };
    const line = { ...names, meaning: reply.meaning, code, ...(detail !== undefined && { detail }) };
    log[levelOf(reply)](line, messageOf(reply));

    if (reply.meaning !== 'gone' && reply.meaning !== 'bad-token') return;
    // While the breaker says that the app's configuration is wrong, a refused token may be good.
    const isMisconfigured = breakers.current(serviceOfDevice(device))?.trouble === 'configuration';
    if (reply.meaning === 'bad-token' && isMisconfigured) return;
    const entry = {
      recipientId: notification.recipientId,
      platform: device.platform,
      ...invalidOf(device, reply.meaning),
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

/** An operator has to act on refused credentials, and a producer on a refused alert; other replies need no action. */
function levelOf({ meaning, trouble, setUp }: Reply): 'error' | 'warn' | 'info' {
  if (needsOperator(trouble) || setUp === true) return 'error';
  return meaning === 'bad-token' || meaning === 'rejected' ? 'warn' : 'info';
}

/** Says what happens next for the device. The line of the pass says what happens next for the notification. */
function messageOf({ meaning, trouble, unsent, setUp, isLimit }: Reply): string {
  if (setUp === true) return SET_UP;
  if (isLimit === true) return 'the push service takes no more for now: sent later, at no attempt';
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
