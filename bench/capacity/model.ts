/**
 * The capacity model: from a plan to what it takes of Redis, of workers and of the network. Pure functions; docs/scaling.md has its
 * results. Every constant was measured, and `npm run bench capacity` measures it again and compares.
 */

/** What one thing takes. A notification is one alert to one FCM device, 367 bytes as JSON. */
export interface Constants {
  // Bytes of Redis, by `npm run bench capacity -- --row figures`
  /** A notification as JSON. It is in the next five. */
  readonly jsonBytes: number;
  /** In the queue, and no worker has looked at it yet. */
  readonly waitingBytes: number;
  /** Put back until its slot, which is counted too; without its share of `lineBytes`. */
  readonly reservedBytes: number;
  /** The line of a recipient for whom at least one waits. */
  readonly lineBytes: number;
  /** Delivered: its id stays taken for an hour. */
  readonly deliveredBytes: number;
  /** A dead letter, after its first hour. */
  readonly deadLetterBytes: number;
  /** In its first hour, when the failed job still keeps its id taken. */
  readonly deadLetterInFirstHourBytes: number;
  /** A recipient with 1 alert in the longest window, and each further one up to 128. */
  readonly recipientBytes: number;
  readonly furtherAlertBytes: number;
  /** Each alert of a recipient with more than 128: Redis stores long sets in another way. */
  readonly manyAlertsBytes: number;
  /** A story (HISTORY_MAX), and an entry of the stream of outcomes (OUTCOMES_MAX). */
  readonly storyBytes: number;
  readonly outcomeBytes: number;
  /** BullMQ's stream of events, which each shard has, whatever waits. */
  readonly shardBytes: number;
  // By `npm run bench capacity -- --row points`
  /** More for each key on a cluster. */
  readonly clusterKeyBytes: number;
  /** What a master keeps for replicas that come back: Redis's own default of `repl-backlog-size`. */
  readonly backlogBytes: number;
  /** Memory of the machine that a busy worker has, at most. */
  readonly workerBytes: number;
  /** More for each notification that it put back until a slot within a day: it notes when that is due. By `--row million`. */
  readonly notedBytes: number;
  /** Scripts that a worker has Redis run: asks of the limiter, and steps of the queue. */
  readonly scriptsAtOnce: number;
  readonly scriptsDeferred: number;
  /** What each replica of a master gets, and what its append-only file grows by. */
  readonly replicatedBytes: Parts;
  // Counts, bytes on the network and times, by `npm run bench capacity -- --row figures`
  /** Commands that a worker sends. */
  readonly commandsAtOnce: number;
  readonly commandsDeferred: number;
  readonly enqueue: Use;
  readonly atOnce: Work;
  /** Put back once, until its slot, and then delivered. */
  readonly deferred: Work;
  /** A request to the provider and its answer, with TLS. */
  readonly requestBytes: number;
  readonly answerBytes: number;
}

interface Parts {
  readonly enqueue: number;
  readonly atOnce: number;
  readonly deferred: number;
}

/** What one notification costs one Redis. */
export interface Use {
  /** Bytes from clients, and to them. */
  readonly inBytes: number;
  readonly outBytes: number;
  /** Processor time of Redis. */
  readonly redisMs: number;
}

/** What one notification costs until it is delivered. The limiter's part lies on the master of its recipient. */
export interface Work {
  readonly queue: Use;
  readonly limiter: Use;
  /** Processor time of the worker. */
  readonly workerMs: number;
}

export const MEASURED: Constants = {
  jsonBytes: 367,
  waitingBytes: 1_214,
  reservedBytes: 1_666,
  lineBytes: 40,
  deliveredBytes: 1_730,
  deadLetterBytes: 1_373,
  deadLetterInFirstHourBytes: 3_922,
  recipientBytes: 167,
  furtherAlertBytes: 17,
  manyAlertsBytes: 114,
  storyBytes: 627,
  outcomeBytes: 122,
  shardBytes: 461_128,
  clusterKeyBytes: 16,
  backlogBytes: 1_048_576,
  workerBytes: 450e6,
  notedBytes: 80,
  scriptsAtOnce: 2,
  scriptsDeferred: 5,
  replicatedBytes: { enqueue: 1_200, atOnce: 1_560, deferred: 3_490 },
  commandsAtOnce: 2.02,
  commandsDeferred: 5.41,
  enqueue: { inBytes: 1_010, outBytes: 40, redisMs: 0.027 },
  atOnce: {
    queue: { inBytes: 970, outBytes: 750, redisMs: 0.06 },
    limiter: { inBytes: 365, outBytes: 23, redisMs: 0.025 },
    workerMs: 0.17,
  },
  deferred: {
    queue: { inBytes: 2_366, outBytes: 1_639, redisMs: 0.12 },
    limiter: { inBytes: 726, outBytes: 179, redisMs: 0.06 },
    workerMs: 0.21,
  },
  requestBytes: 600,
  answerBytes: 84,
};

/** What is to be served, and by what. */
export interface Plan {
  readonly recipients: number;
  /** Of one recipient, in the mean. */
  readonly alertsADay: number;
  /** The longest window of the limits. */
  readonly windowMs: number;
  /** The peak: on an average day, a message to all that is to leave within this time. */
  readonly broadcastMs: number;
  /** How long before it leaves a notification of it is enqueued; Infinity: all at once. */
  readonly aheadMs: number;
  /** A notification as JSON. */
  readonly payloadBytes: number;
  /** The share of the peak that has to wait for a slot, 0 to 1. */
  readonly waits: number;
  /** How many of those wait for the same recipient. */
  readonly line: number;
  readonly shards: number;
  /** 1: one Redis, no cluster. */
  readonly masters: number;
  /** Of each master. */
  readonly replicas: number;
  /** How long a provider takes to answer. */
  readonly answerMs: number;
  /** WORKER_CONCURRENCY; the default is the worker's. */
  readonly concurrency: number;
  /** Delivered jobs that are kept, for an hour at most: this many for each shard at most. */
  readonly completed: number;
  /** Dead letters, stories and outcomes that are kept, in all shards together. */
  readonly deadLetters: number;
  readonly history: number;
  readonly outcomes: number;
}

/** An app with a million people, 5 alerts a day each. */
export const DEFAULT_PLAN: Plan = {
  recipients: 1_000_000,
  alertsADay: 5,
  windowMs: 86_400_000,
  broadcastMs: 600_000,
  aheadMs: Infinity,
  payloadBytes: MEASURED.jsonBytes,
  waits: 0,
  line: 1,
  shards: 1,
  masters: 1,
  replicas: 0,
  answerMs: 80,
  concurrency: 50,
  completed: 50_000,
  deadLetters: 100_000,
  history: 0,
  outcomes: 0,
};

/** Plan with so much of a core: bursts, and Redis's own work, need the other half. */
export const BUSY = 0.5;
const DAY_MS = 86_400_000;
const HOUR_S = 3_600;

/** Bytes of Redis, for each thing that takes some. */
export interface Memory {
  readonly recipients: number;
  /** What waits of the message to all. */
  readonly waiting: number;
  readonly completed: number;
  readonly deadLetters: number;
  readonly history: number;
  readonly outcomes: number;
  /** Of the shards and masters themselves. */
  readonly fixed: number;
  readonly total: number;
  /** Of one shard's queue, without the recipients. */
  readonly shard: number;
  /** Of the fullest master, which has the most shards. */
  readonly master: number;
}

export interface Needs {
  /** Notifications a second: on an average day, and with the message to all besides. */
  readonly usualPerSecond: number;
  readonly peakPerSecond: number;
  readonly memory: Memory;
  /** At the peak, shares of one core of the busiest master. Plan with 0.5 in all. */
  readonly cores: { readonly queue: number; readonly limiter: number; readonly all: number };
  /** The most at half a core of the busiest master: all shards together, and one of them. */
  readonly mostPerSecond: number;
  readonly mostPerSecondAShard: number;
  readonly workers: { readonly byCore: number; readonly byAnswers: number; readonly needed: number };
  /** Of each worker, at most. */
  readonly workerBytes: number;
  /** At most: of one worker, and of all that are needed. */
  readonly connections: Connections & { readonly aWorker: Connections };
  /** Bytes on the network for one notification: to and from Redis, to and from the provider, and to each replica. */
  readonly network: {
    readonly redisIn: number;
    readonly redisOut: number;
    readonly provider: number;
    readonly replica: number;
    /** At the peak, in all: bytes a second. */
    readonly perSecond: number;
  };
}

export function needsOf(plan: Plan, constants: Constants = MEASURED): Needs {
  const usualPerSecond = (plan.recipients * plan.alertsADay) / (DAY_MS / 1_000);
  const peakPerSecond = usualPerSecond + (1_000 * plan.recipients) / plan.broadcastMs;
  const memory = memoryOf(plan, peakPerSecond, constants);
  const mixed = (of: (work: Work) => number): number =>
    (1 - plan.waits) * of(constants.atOnce) + plan.waits * of(constants.deferred);
  const more = payloadCopies(plan, constants);

  const queueMs = constants.enqueue.redisMs + mixed(({ queue }) => queue.redisMs);
  const limiterMs = mixed(({ limiter }) => limiter.redisMs);
  const queueShare = mostOnOneMaster(plan) / plan.shards;
  const limiterShare = 1 / plan.masters;
  const cores = {
    queue: (peakPerSecond * queueShare * queueMs) / 1_000,
    limiter: (peakPerSecond * limiterShare * limiterMs) / 1_000,
  };
  const mostPerSecond = (1_000 * BUSY) / (queueShare * queueMs + limiterShare * limiterMs);

  const byCore = (peakPerSecond * mixed(({ workerMs }) => workerMs)) / (1_000 * BUSY);
  const byAnswers = (peakPerSecond * plan.answerMs) / (1_000 * placesOf(plan));
  const needed = Math.max(2, Math.ceil(Math.max(byCore, byAnswers)));
  const aWorker = connectionsOf(plan);

  const redisIn = constants.enqueue.inBytes + mixed(({ queue, limiter }) => queue.inBytes + limiter.inBytes) + more;
  const redisOut = constants.enqueue.outBytes + mixed(({ queue, limiter }) => queue.outBytes + limiter.outBytes) + more;
  const replicated = constants.replicatedBytes;
  const replica = replicated.enqueue + (1 - plan.waits) * replicated.atOnce + plan.waits * replicated.deferred + more;
  const provider = constants.requestBytes + constants.answerBytes + more;
  const perSecond = peakPerSecond * (redisIn + redisOut + provider + plan.replicas * replica);
  return {
    usualPerSecond,
    peakPerSecond,
    memory,
    cores: { ...cores, all: cores.queue + cores.limiter },
    mostPerSecond,
    mostPerSecondAShard: mostPerSecond / plan.shards,
    workers: { byCore, byAnswers, needed },
    workerBytes: constants.workerBytes + (waitingOf(plan) * plan.waits * constants.notedBytes) / needed,
    connections: { aWorker, all: needed * aWorker.all, aNode: needed * aWorker.aNode },
    network: { redisIn, redisOut, provider, replica, perSecond },
  };
}

/** Jobs that a worker has under way at once: each shard gets its part of WORKER_CONCURRENCY, rounded up. */
function placesOf({ concurrency, shards }: Pick<Plan, 'concurrency' | 'shards'>): number {
  return shards * Math.ceil(concurrency / shards);
}

/** How many of the message to all wait at the peak. */
function waitingOf({ recipients, aheadMs, broadcastMs }: Plan): number {
  return recipients * Math.min(1, aheadMs / broadcastMs);
}

/** Bytes of Redis at the peak, when as much of the message to all waits as may wait. */
function memoryOf(plan: Plan, perSecond: number, constants: Constants): Memory {
  const more = payloadCopies(plan, constants);
  const aKey = plan.masters > 1 ? constants.clusterKeyBytes : 0;
  const { shards, masters } = plan;
  const { recipients, alerts } = withinWindow(plan);
  const parts = {
    recipients: recipients * (bytesOfRecipient(alerts, constants) + aKey),
    waiting: waitingOf(plan) * waitingBytes(plan, constants),
    completed: Math.min(plan.completed * shards, perSecond * HOUR_S) * (constants.deliveredBytes + more + aKey),
    deadLetters: plan.deadLetters * (constants.deadLetterBytes + more + aKey),
    history: plan.history * constants.storyBytes,
    outcomes: plan.outcomes * constants.outcomeBytes,
    fixed: shards * constants.shardBytes + (plan.replicas > 0 ? masters * constants.backlogBytes : 0),
  };
  const total = Object.values(parts).reduce((sum, bytes) => sum + bytes, 0);
  const { waiting, completed, deadLetters, history, outcomes } = parts;
  const shard = (waiting + completed + deadLetters + history + outcomes) / shards + constants.shardBytes;
  const rest = parts.recipients + (plan.replicas > 0 ? masters * constants.backlogBytes : 0);
  return { ...parts, total, shard, master: mostOnOneMaster(plan) * shard + rest / masters };
}

/**
 * The recipients who got an alert within the longest window, and how many each got in the mean. At most: if there are fewer alerts
 * than recipients, each counts as another recipient's.
 */
function withinWindow({ recipients, alertsADay, windowMs, broadcastMs }: Plan): { recipients: number; alerts: number } {
  const each = (alertsADay * windowMs) / DAY_MS + Math.min(1, windowMs / broadcastMs);
  return { recipients: recipients * Math.min(1, each), alerts: Math.max(1, each) };
}

/** Bytes of one notification of the peak in Redis, with its share of its recipient's line. */
export function waitingBytes(
  plan: Pick<Plan, 'waits' | 'line' | 'masters' | 'payloadBytes'>,
  constants: Constants = MEASURED,
): number {
  const aKey = plan.masters > 1 ? constants.clusterKeyBytes : 0;
  const inLine = constants.reservedBytes + (constants.lineBytes + aKey) / plan.line;
  const each = (1 - plan.waits) * constants.waitingBytes + plan.waits * inLine;
  return each + aKey + payloadCopies(plan, constants);
}

/** A recipient with so many alerts within the longest window. */
export function bytesOfRecipient(alerts: number, constants: Constants = MEASURED): number {
  if (alerts > 128) return alerts * constants.manyAlertsBytes;
  return constants.recipientBytes + (Math.max(1, alerts) - 1) * constants.furtherAlertBytes;
}

/** A job has its notification once, as it was enqueued; so has each way that it takes. */
function payloadCopies({ payloadBytes }: Pick<Plan, 'payloadBytes'>, { jsonBytes }: Constants): number {
  return payloadBytes - jsonBytes;
}

/** Shards lie on the masters one after the other, so one master may have one more than another. */
function mostOnOneMaster({ shards, masters }: Pick<Plan, 'shards' | 'masters'>): number {
  return Math.ceil(shards / masters);
}

function nodesOf({ masters, replicas }: Pick<Plan, 'masters' | 'replicas'>): number {
  return masters * (1 + replicas);
}

/**
 * Of one worker: a client for the queues, one for the limiter, and one for each shard. On a cluster each has at most one connection
 * to every node, and now and then one more to ask for the hash slots.
 */
export function connectionsOf(plan: Pick<Plan, 'shards' | 'masters' | 'replicas'>): Connections {
  const clients = 2 + plan.shards;
  if (plan.masters === 1) return { all: clients, aNode: clients };
  return { all: clients * nodesOf(plan), aNode: clients + 1 };
}

interface Connections {
  /** To all nodes together. */
  readonly all: number;
  readonly aNode: number;
}
