import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { notificationIdOf } from '../../src/queue/names.ts';

/** The fields of a worker's log line that are used here. */
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

function lineOf({ time, jobId, outcome, platform, trouble, code }: Record<string, unknown>): LogLine {
  const isPass = typeof jobId === 'string' && outcome !== undefined;
  // The line of a breaker that closed has no code.
  const isBreaker = typeof platform === 'string' && typeof trouble === 'string' && typeof code === 'string';
  return {
    at: Date.parse(String(time)),
    ...(isPass && { id: notificationIdOf(jobId) }),
    ...(isBreaker && { breaker: { platform, trouble, code } }),
  };
}
