import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { QUEUE } from '../../src/queue/names.ts';
import { bytesOf } from '../bytes.ts';
import { bytesPerRecipient } from '../limiter/memory.ts';
import { ourSends } from '../limiter/sends.ts';
import { enqueueAll, makeNotifications, PREFIX, workUntil, type Surroundings } from './workload.ts';

/** How many notifications are in Redis while bytes are counted. */
export interface Sizes {
  readonly few: number;
  readonly many: number;
}

/** Bytes of Redis for each. */
export interface Memory {
  /** The notification itself, as JSON. It is in the next four. */
  readonly json: number;
  /** In the queue, and no worker has looked at it yet. */
  readonly waiting: Sizes;
  /** Put back until its slot, in a line of 100 to its recipient. Its slot is counted too. */
  readonly reserved: Sizes;
  /** Delivered: its id stays taken for an hour. */
  readonly delivered: number;
  /** After an hour, and before, when the failed job still keeps its id taken. */
  readonly deadLetter: number;
  readonly deadLetterInFirstHour: number;
  /** A recipient by the number of alerts within the longest window. */
  readonly recipientWith1: number;
  readonly recipientWith10: number;
  readonly recipientWith60: number;
}

/** How many wait for one recipient. */
const LINE = 100;
/** The first of a line is sent, and the others get slots up to 17 hours ahead. */
const ONE_IN_TEN_MINUTES = { LIMIT_RULES: '1/10m', LIMIT_MIN_GAP: '0' };
/** The limiter forgets a recipient a second after the alert, so that the job alone is counted. */
const SOON_FORGOTTEN = { LIMIT_RULES: '10/1s', LIMIT_MIN_GAP: '0' };

export async function measureMemory(sizes: Sizes, around: Surroundings, say: (line: string) => void): Promise<Memory> {
  const { few, many } = sizes;
  say(`bytes of a waiting notification: ${few} and ${many}`);
  const waiting = { few: await waitingBytes(few), many: await waitingBytes(many) };
  say(`bytes of one that waits for its slot: ${few} and ${many}, ${LINE} to a recipient`);
  const reserved = { few: await reservedBytes(few, around), many: await reservedBytes(many, around) };
  say(`bytes of one that was delivered, and of a dead letter: ${few} each`);
  const delivered = await deliveredBytes(few, around);
  const deadLetterInFirstHour = await deadLetterBytes(few, around);
  const deadLetter = await deadLetterBytes(few, around, forgetIds);
  say('bytes of a recipient');
  const crowd = { originals: 256, copies: Math.ceil(few / 256) };
  const [recipientWith1, recipientWith10, recipientWith60] = [
    await bytesPerRecipient(ourSends, 1, crowd),
    await bytesPerRecipient(ourSends, 10, crowd),
    await bytesPerRecipient(ourSends, 60, crowd),
  ];
  const json = Buffer.byteLength(JSON.stringify(makeNotifications('job', 1)[0]));
  const jobs = { json, waiting, reserved, delivered, deadLetter, deadLetterInFirstHour };
  return { ...jobs, recipientWith1, recipientWith10, recipientWith60 };
}

async function waitingBytes(count: number): Promise<number> {
  return (await bytesOf((url) => enqueueAll(url, makeNotifications('job', count)))) / count;
}

async function reservedBytes(count: number, { env, dir }: Surroundings): Promise<number> {
  const waiting = count - count / LINE;
  const bytes = await bytesOf(async (url) => {
    await enqueueAll(url, makeNotifications('job', count, LINE));
    await workUntil('delayed', waiting, url, { dir, env: { ...env, ...ONE_IN_TEN_MINUTES } });
  });
  return bytes / waiting;
}

async function deliveredBytes(count: number, { env, dir }: Surroundings): Promise<number> {
  const bytes = await bytesOf(async (url) => {
    await enqueueAll(url, makeNotifications('job', count));
    await workUntil('completed', count, url, { dir, env: { ...env, ...SOON_FORGOTTEN } });
    await untilExpired(url, count);
  });
  return bytes / count;
}

/** No platform has credentials, so each becomes a dead letter, `provider-not-configured`. */
async function deadLetterBytes(
  count: number,
  { dir }: Surroundings,
  afterwards?: (url: string, count: number) => Promise<void>,
): Promise<number> {
  const bytes = await bytesOf(async (url) => {
    await enqueueAll(url, makeNotifications('job', count));
    await workUntil('dead', count, url, { dir, env: {} });
    await afterwards?.(url, count);
  });
  return bytes / count;
}

/** Removes the failed jobs, as Redis does when their hour has passed. */
async function forgetIds(url: string, count: number): Promise<void> {
  const redis = new Redis(url);
  try {
    const keys = makeNotifications('job', count).map(({ id }) => `${PREFIX}:${QUEUE}:${id}`);
    const removed = await redis.del(keys);
    if (removed !== count) throw new Error(`expected ${count} failed jobs, found ${removed}`);
  } finally {
    redis.disconnect();
  }
}

/** Waits until Redis has removed the recipients that have expired: fewer than 100 keys are no job's then. */
async function untilExpired(url: string, jobs: number): Promise<void> {
  const redis = new Redis(url);
  try {
    while ((await redis.dbsize()) > jobs + 100) await sleep(100);
  } finally {
    redis.disconnect();
  }
}
