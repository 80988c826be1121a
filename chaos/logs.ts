import { appendFile, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { WorkerDelays } from '../demo/delays.ts';
import { notificationIdOf } from '../src/queue/names.ts';

/** The fields of a worker's log line that are used here. */
export interface LogLine {
  /** Epoch milliseconds. */
  readonly at: number;
  /** The notification whose pass ended. */
  readonly id?: string;
  /** The notifications whose job locks the worker did not renew in time. */
  readonly lostJobs?: readonly string[];
  /** Of the line `ready`: BullMQ's ids of this process, which are the holders of its job locks. */
  readonly workerIds?: readonly string[];
  /** The trouble of a circuit breaker that opened or stayed open, and the answer that did it. */
  readonly breaker?: { readonly platform: string; readonly trouble: string; readonly code: string };
}

/** The lines of each worker, by the name of its file. */
export type Logs = ReadonlyMap<string, readonly LogLine[]>;

export async function readLogs(folder: string): Promise<Logs> {
  const names = (await readdir(folder)).filter((name) => name.endsWith('.log'));
  const texts = names.map(async (name) => [name, parseLog(await readFile(join(folder, name), 'utf8'))] as const);
  return new Map(await Promise.all(texts));
}

/** When a worker was frozen on purpose, by the name of its log: epoch milliseconds. */
interface Frozen {
  readonly log: string;
  readonly at: number;
  readonly thawedAt: number;
}

/** The workers' delays from the same logs. Delays of a worker that this run had frozen are left out. */
export async function readDelays(folder: string, freezes: readonly Frozen[]): Promise<WorkerDelays> {
  const delays = new WorkerDelays();
  for (const name of (await readdir(folder)).filter((file) => file.endsWith('.log'))) {
    for (const line of (await readFile(join(folder, name), 'utf8')).split('\n')) delays.note(name, line);
  }
  for (const { log, at, thawedAt } of freezes) delays.forget(log, { from: at, until: thawedAt });
  return delays;
}

/** Lines that are not JSON are skipped: a warning of Node, or half a line of a killed worker. */
export function parseLog(text: string): LogLine[] {
  return text.split('\n').flatMap((line) => {
    try {
      return [lineOf(JSON.parse(line) as Record<string, unknown>)];
    } catch {
      return [];
    }
  });
}

/** Of the worker's line about them (workers/consumer.ts). */
const LOCKS_LOST = /\bjobs? went to other workers\b/;

function lineOf({ time, jobId, jobIds, outcome, workerIds, msg, ...line }: Record<string, unknown>): LogLine {
  const { platform, trouble, code } = line;
  const isPass = typeof jobId === 'string' && outcome !== undefined;
  // The line of a breaker that closed has no code.
  const isBreaker = typeof platform === 'string' && typeof trouble === 'string' && typeof code === 'string';
  return {
    at: Date.parse(String(time)),
    ...(isPass && { id: notificationIdOf(jobId) }),
    ...(Array.isArray(jobIds) &&
      LOCKS_LOST.test(String(msg)) && { lostJobs: (jobIds as string[]).map(notificationIdOf) }),
    ...(Array.isArray(workerIds) && { workerIds: workerIds as string[] }),
    ...(isBreaker && { breaker: { platform, trouble, code } }),
  };
}

/** Openings of circuit breakers, from the workers' logs. */
export interface BreakerOpenings {
  /** Log lines of breakers that opened or stayed open, by trouble; each worker logs its own. */
  readonly breakersOpened: Readonly<Record<string, number>>;
  /** Breakers that were opened by an answer about one device, which says nothing about the provider. */
  readonly breakersByOneDevice: readonly string[];
}

/** Answers about one device of thousands, whatever their status. QUOTA_EXCEEDED of many devices may mean the project. */
const OF_ONE_DEVICE = new Set([
  'BadDeviceToken',
  'Unregistered',
  'SENDER_ID_MISMATCH',
  'THIRD_PARTY_AUTH_ERROR',
  'UNREGISTERED',
]);

export function countBreakers(logs: Logs): BreakerOpenings {
  const openings = [...logs].flatMap(([log, lines]) =>
    lines.flatMap(({ at, breaker }) => (breaker === undefined ? [] : [{ log, at, ...breaker }])),
  );
  const byTrouble = Map.groupBy(openings, ({ trouble }) => trouble);
  return {
    breakersOpened: Object.fromEntries([...byTrouble].map(([trouble, lines]) => [trouble, lines.length])),
    breakersByOneDevice: openings
      .filter(({ code }) => OF_ONE_DEVICE.has(code))
      .map(({ log, at, platform, code }) => `${platform}, ${code}, in ${log} at ${new Date(at).toISOString()}`),
  };
}

const PAGES = ['/metrics', '/readyz', '/healthz'];
const EVERY_MS = 3_000;
const ANSWER_MS = 2_000;

/** Appends the workers' pages to a file every few seconds, until the signal aborts. A frozen worker's page is left out. */
export async function samplePages(urls: () => string[], file: string, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const pages = urls().flatMap((url) => PAGES.map((page) => `${new URL(url).origin}${page}`));
    const texts = await Promise.all(pages.map(read));
    await appendFile(file, texts.join(''));
    await sleep(EVERY_MS, undefined, { signal }).catch(() => undefined);
  }
}

async function read(url: string): Promise<string> {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(ANSWER_MS), headers: { connection: 'close' } });
    return `${url} ${answer.status}\n${await answer.text()}\n`;
  } catch {
    return '';
  }
}
