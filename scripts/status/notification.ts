import type { Queue } from 'bullmq';
import type { StoredDeadLetter } from '../../src/dead-letters/letter.ts';
import { readProgress } from '../../src/delivery/progress.ts';
import { isOrAre, printable } from '../../src/domain/faults.ts';
import { instantOf } from '../../src/domain/time.ts';
import { isObject } from '../../src/domain/json.ts';
import { lossText, readLossesOfQueue } from '../../src/operations/losses.ts';
import { findRetractions, takenBackText, type RetractionSeen } from '../../src/operations/retractions.ts';
import { findHolder, findPlace, isTakenId } from '../../src/operations/story.ts';
import { RETRACTED_BEFORE } from '../../src/operations/why.ts';
import { notificationIdOf } from '../../src/queue/names.ts';
import type { NotificationStatus } from '../../src/producer/producer.ts';
import type { NotedLoss } from '../../src/queue/losses.ts';
import { findJob } from '../../src/queue/readable.ts';
import { readWorkers, type SeenWorker } from '../../src/queue/workers.ts';
import type { Connection } from '../../src/redis/connection.ts';
import { notificationFacts, type NotificationFacts } from '../../src/dead-letters/facts.ts';
import { printJson } from '../../src/terminal/command.ts';
import { atBackend } from '../support/backend.ts';
import { unfitId } from '../support/queue.ts';
import { table, columnsOf, heading, instantFrom, span } from '../../src/terminal/text.ts';
import { callOther } from '../../src/operations/status.ts';

/** What the queue knows about a notification beside its status. No token, text or data. Instants are epoch milliseconds. */
interface JobFacts extends Partial<Omit<NotificationFacts, 'id' | 'sizes' | 'devices'>> {
  /** The id in the data, if it is not the job's id. */
  readonly notificationId?: string;
  /** The job's id in its queue; after a replay it is not the notification's id. */
  readonly jobId?: string;
  readonly enqueuedAt?: number;
  readonly sendAfter?: number;
  readonly attempts?: number;
  /** How often the job was requeued. */
  readonly requeues?: number;
  /** For each device, by its label such as `apns#0`: how it ended, or `to do`. */
  readonly devices?: Readonly<Record<string, string>>;
  /** The tries that failed, the newest last. */
  readonly failures?: readonly { readonly at: number; readonly device?: string | undefined; readonly error: string }[];
  /** If no worker has looked at the job: how many jobs are taken before it. Absent if the job has no priority. */
  readonly ahead?: number;
  /** The worker that has the job. */
  readonly worker?: Pick<SeenWorker, 'id' | 'host' | 'pid' | 'version' | 'silentMs' | 'alive'>;
  /** The retractions that take the notification from its devices. Absent if none is known. */
  readonly retractions?: readonly RetractionSeen[];
  /** Of an unknown id: what the queue's Redis has lost. Absent if nothing. */
  readonly losses?: readonly NotedLoss[];
  /** A retract took the id before the notification was enqueued. */
  readonly retractedBefore?: true;
}

/** `status ID` */
export async function showNotification(id: string, json: boolean): Promise<void> {
  const { now, status, facts } = await atBackend(async ({ connection, producer, shards, prefix }) => {
    const statusOf = (of: string): Promise<NotificationStatus> => producer.status(of);
    const status = await statusOf(id).catch((error: unknown) => {
      throw unfitId(error);
    });
    const { now, workers } = await readWorkers(connection, prefix); // `now` is on Redis's clock
    if (status.state === 'unknown') {
      const losses = await readLossesOfQueue(connection, prefix, now);
      return { now, status, facts: losses.length === 0 ? {} : { losses } };
    }
    const holder = await findHolder(id, status.state, await shards.open());
    const found =
      holder === undefined
        ? {}
        : 'letter' in holder
          ? factsOfLetter(holder)
          : await factsOfJob(holder, connection, workers);
    const { recipientId } = found;
    const homes = (of: string): ReturnType<typeof shards.homes> => shards.homes(of);
    const retractions =
      recipientId === undefined ? [] : await findRetractions(id, recipientId, { connection, homes, status: statusOf });
    const devices = status.state === 'ended' ? { devices: { ...found.devices, ...status.devices } } : {};
    return { now, status, facts: { ...found, ...devices, ...(retractions.length > 0 && { retractions }) } };
  });
  if (json) printJson({ id, now, ...status, ...facts });
  else process.stdout.write(`${describe(id, status, facts, now).join('\n')}\n`);
}

function factsOfLetter({ id: jobId, letter }: StoredDeadLetter): JobFacts {
  const { notification, attempts: failures, delivered = [] } = letter;
  const { devices = [], ...facts } = shown(notification, jobId);
  const states = devices.map((label) => [label, delivered.includes(label) ? 'delivered' : 'not delivered'] as const);
  return { ...facts, ...sendAfterOf(notification), jobId, devices: Object.fromEntries(states), failures };
}

async function factsOfJob(
  { queue, jobId }: { readonly queue: Queue; readonly jobId: string },
  connection: Connection,
  workers: readonly SeenWorker[],
): Promise<JobFacts> {
  const [job, { worker, ahead }] = await Promise.all([
    findJob(queue, jobId),
    findPlace(queue, jobId, connection, workers),
  ]);
  if (job === undefined) return { jobId };
  if (isTakenId(job)) return { jobId, retractedBefore: true };
  const { devices: labels = [], ...facts } = shown(job.data, jobId);
  const progress = readProgress(job.progress);
  return {
    ...facts,
    ...sendAfterOf(job.data),
    jobId,
    enqueuedAt: job.timestamp,
    attempts: attemptsOf(job.returnvalue) ?? progress.tries,
    requeues: progress.requeues,
    devices: Object.fromEntries(labels.map((label) => [label, progress.devices[label] ?? 'to do'])),
    failures: progress.attempts,
    ...(ahead !== undefined && { ahead }),
    ...(worker && { worker: nameOf(worker) }),
  };
}

/** The facts to show: without sizes, and with the id only if it is another one than the job's. */
function shown(notification: unknown, jobId: string): Omit<JobFacts, 'devices'> & Pick<NotificationFacts, 'devices'> {
  const facts: Partial<NotificationFacts> = { ...notificationFacts(notification, jobId) };
  const notificationId = facts.id === notificationIdOf(jobId) ? undefined : facts.id;
  Reflect.deleteProperty(facts, 'sizes');
  Reflect.deleteProperty(facts, 'id');
  return { ...facts, ...(notificationId !== undefined && { notificationId }) };
}

/** The attempts of a notification that has ended, from its job's return value: the job's progress leaves out the last attempt. */
function attemptsOf(returned: unknown): number | undefined {
  const attempts = isObject(returned) ? returned['attempts'] : undefined;
  return typeof attempts === 'number' ? attempts : undefined;
}

function sendAfterOf(data: unknown): Pick<JobFacts, 'sendAfter'> {
  const sendAfter = isObject(data) ? instantOf(data['sendAfter']) : undefined;
  return sendAfter === undefined ? {} : { sendAfter };
}

function nameOf({ id, host, pid, version, silentMs, alive }: SeenWorker): NonNullable<JobFacts['worker']> {
  return { id, host, pid, version, silentMs, alive };
}

const UNKNOWN =
  'unknown: no notification has this id, or it ended more than an hour ago (or 50000 others have ended since), or it was a ' +
  'dead letter that was replayed too often, discarded or removed. Ids are compared letter by letter. Does QUEUE_PREFIX fit?';

function describe(id: string, status: NotificationStatus, facts: JobFacts, now: number): string[] {
  const width = { columns: columnsOf(), wrap: true };
  const title = heading(`${printable(id)}${facts.jobId === undefined ? '' : jobText(id, facts.jobId)}`);
  const rows = [['state', stateText(id, status, facts, now)], ...statusRows(status, now), ...factRows(facts, now)];
  const { failures = [] } = facts;
  const tries = failures.map(({ at, device = '-', error }) => [instantFrom(now, at), device, printable(error)]);
  const failed = tries.length === 0 ? [] : ['', heading('Failed attempts, the newest last'), ...table(tries, width)];
  return [title, '', ...table(rows, width), ...failed];
}

function jobText(id: string, jobId: string): string {
  return jobId === id ? '' : `, job ${printable(jobId)}`;
}

function stateText(
  id: string,
  status: NotificationStatus,
  { ahead, worker, losses = [] }: JobFacts,
  now: number,
): string {
  switch (status.state) {
    case 'unknown':
      return [UNKNOWN, ...losses.map((loss) => `${lossText(loss, now)}.`)].join(' ');
    case 'waiting': {
      if (status.until !== undefined && status.until > now)
        return `waits until ${instantFrom(now, status.until)}${status.rule === undefined ? '' : `, by ${printable(status.rule)}`}`;
      if (status.until !== undefined) return `due since ${instantFrom(now, status.until)}, and not taken`;
      return `waits for a worker${ahead === undefined ? '' : `; ${ahead} ${isOrAre(ahead)} taken before it`}`;
    }
    case 'sending': {
      if (worker === undefined) return 'a worker has it';
      const { host, pid, version, alive, silentMs } = worker;
      const seen = alive
        ? ''
        : `, which is not seen for ${span(silentMs)}: another worker takes it when its lock has run out`;
      return `a worker has it: ${printable(host)}, process ${pid}, version ${printable(version)}${seen}`;
    }
    case 'ended':
      return `${status.outcome}, ${instantFrom(now, status.endedAt)}`;
    case 'dead-lettered':
      return `dead letter: ${status.reason}, ${instantFrom(now, status.deadAt)}; more: ${callOther('dead-letters')} show ${printable(id)}`;
  }
}

/** The fields of a status that the line `state` shows already. */
const IN_STATE: ReadonlySet<string> = new Set([
  'state',
  'until',
  'rule',
  'outcome',
  'endedAt',
  'reason',
  'deadAt',
  'devices',
]);

/** Rows for all fields that are not in IN_STATE, so also for fields that are added to the status later. */
function statusRows(status: NotificationStatus, now: number): string[][] {
  return Object.entries(status as Readonly<Record<string, unknown>>).flatMap(([name, value]) =>
    IN_STATE.has(name) || value === undefined ? [] : [[wordsOf(name), valueText(name, value, now)]],
  );
}

/** `sentAt` → `sent`, `waitMs` → `wait`, `ruleUntil` → `rule until` */
function wordsOf(name: string): string {
  return name.replace(/(At|Ms)$/, '').replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}

function valueText(name: string, value: unknown, now: number): string {
  if (typeof value === 'number' && /(At|Until)$/.test(name)) return instantFrom(now, value);
  if (typeof value === 'number' && name.endsWith('Ms')) return span(value);
  if (value === true) return 'yes';
  return printable(typeof value === 'string' ? value : JSON.stringify(value));
}

function factRows(
  { recipientId, category, priority, attempts, requeues, devices = {}, retractions = [], ...others }: JobFacts,
  now: number,
) {
  const labels = Object.entries(devices).map(([label, state]) => `${label} ${printable(state)}`);
  const times = [
    ['enqueued', others.enqueuedAt],
    ['send after', others.sendAfter],
    ['expires', others.expiresAt],
  ] as const;
  const rows: (readonly [name: string, value: string | number | undefined])[] = [
    ['notification', others.notificationId && `${printable(others.notificationId)}, by its data`],
    ['recipient', recipientId && printable(recipientId)],
    ['category', category && printable(category)],
    ['priority', priority && printable(priority)],
    ...times.map(([name, instant]) => [name, instant === undefined ? undefined : instantFrom(now, instant)] as const),
    ['attempts', attempts],
    ['requeues', requeues],
    ['devices', labels.length === 0 ? undefined : labels.join(', ')],
    ['retracted', others.retractedBefore && RETRACTED_BEFORE],
    ...retractions.map((each) => ['retracted', takenBackText(now, each)] as const),
  ];
  return rows.flatMap(([name, value]) => (value === undefined ? [] : [[name, String(value)]]));
}
