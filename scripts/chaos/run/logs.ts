import { appendFile, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { notificationIdOf } from '../../../src/queue/names.ts';

/** What one line of a worker's log tells, as far as it is judged. */
export interface LogLine {
  /** Epoch milliseconds. */
  readonly at: number;
  /** The notification whose pass ended. */
  readonly id?: string;
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

/** What is no JSON (a warning of Node's, the half line of a killed worker) tells nothing. */
export function parseLog(text: string): LogLine[] {
  return text.split('\n').flatMap((line) => {
    try {
      return [lineOf(JSON.parse(line) as Record<string, unknown>)];
    } catch {
      return [];
    }
  });
}

function lineOf({ time, jobId, outcome, platform, trouble, code }: Record<string, unknown>): LogLine {
  const isPass = typeof jobId === 'string' && outcome !== undefined;
  // A breaker that closed is told without a code.
  const isBreaker = typeof platform === 'string' && typeof trouble === 'string' && typeof code === 'string';
  return {
    at: Date.parse(String(time)),
    ...(isPass && { id: notificationIdOf(jobId) }),
    ...(isBreaker && { breaker: { platform, trouble, code } }),
  };
}

/** What the workers' logs tell of circuit breakers. */
export interface BreakerOpenings {
  /** Lines that tell of a breaker that opened or stayed open, by its trouble; each worker tells its own. */
  readonly breakersOpened: Readonly<Record<string, number>>;
  /** Those that an answer about one device did: such an answer says nothing about the provider. */
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
  const told = [...logs].flatMap(([log, lines]) =>
    lines.flatMap(({ at, breaker }) => (breaker === undefined ? [] : [{ log, at, ...breaker }])),
  );
  const byTrouble = Map.groupBy(told, ({ trouble }) => trouble);
  return {
    breakersOpened: Object.fromEntries([...byTrouble].map(([trouble, lines]) => [trouble, lines.length])),
    breakersByOneDevice: told
      .filter(({ code }) => OF_ONE_DEVICE.has(code))
      .map(({ log, at, platform, code }) => `${platform}, ${code}, in ${log} at ${new Date(at).toISOString()}`),
  };
}

const PAGES = ['/metrics', '/readyz', '/healthz'];
const EVERY_MS = 3_000;
const ANSWER_MS = 2_000;

/** Keeps what the workers' pages say, every few seconds, until it is told to end; a frozen worker says nothing. */
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
