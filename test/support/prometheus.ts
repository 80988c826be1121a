import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import { freePort } from '../../sandbox/redis/embedded-redis.ts';
import { debianProgram } from '../../tools/debian.ts';
import { runProgram, temporaryFolder } from './program.ts';
import { waitFor } from './wait.ts';

const GUARDIAN = fileURLToPath(new URL('../../sandbox/redis/redis-guardian.sh', import.meta.url));

/** A real Prometheus on the loopback. */
export interface TestPrometheus {
  readonly url: string;
  /** The series that an expression has now. Rejects with Prometheus's words where it cannot be evaluated. */
  query(expr: string): Promise<Series[]>;
}

export interface Series {
  readonly metric: Readonly<Record<string, string>>;
  readonly value: number;
}

/** Runs promtool to its end and gives its output; rejects with the output where it finds a fault. */
export async function promtool(args: readonly string[], cwd: string): Promise<string> {
  return runProgram(await programOf('promtool'), args, cwd);
}

/** What `promtool check metrics` says of a page; an empty text if it finds no fault. */
export async function checkMetrics(page: string): Promise<string> {
  const child = spawn(await programOf('promtool'), ['check', 'metrics'], { stdio: ['pipe', 'pipe', 'pipe'] });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (said += text));
  }
  const ended = once(child, 'close') as Promise<[number | null]>;
  child.stdin.end(page);
  const [code] = await ended;
  return said === '' && code !== 0 ? `promtool ended with ${code ?? 'a signal'}` : said;
}

/** Starts one with this configuration, and resolves when it answers. It ends with the test, and with this process. */
export async function startPrometheus(configFile: string): Promise<TestPrometheus> {
  const program = await programOf('prometheus');
  const data = await temporaryFolder();
  const address = `127.0.0.1:${await freePort()}`;
  const args = [`--config.file=${configFile}`, `--storage.tsdb.path=${data}`, `--web.listen-address=${address}`];
  const guardian = spawn('sh', [GUARDIAN, '', program, ...args], { stdio: ['pipe', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [guardian.stdout, guardian.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (output = `${output}${text}`.slice(-4_000)));
  }
  const ended = once(guardian, 'close');
  onTestFinished(async () => {
    guardian.stdin.end();
    await ended;
  });
  const url = `http://${address}`;
  await waitFor(async () => {
    if (guardian.exitCode !== null) throw new Error(`${program} ended:\n${output}`);
    const { ok } = await fetch(`${url}/-/ready`);
    if (!ok) throw new Error(`${program} is not ready:\n${output}`);
  });
  return { url, query: (expr) => query(url, expr) };
}

interface Answer {
  readonly status: string;
  readonly error?: string;
  readonly data?: {
    readonly result: readonly { readonly metric: Record<string, string>; readonly value: [number, string] }[];
  };
}

async function query(url: string, expr: string): Promise<Series[]> {
  const answer = await fetch(`${url}/api/v1/query`, { method: 'POST', body: new URLSearchParams({ query: expr }) });
  const { status, error, data } = (await answer.json()) as Answer;
  if (status !== 'success' || data === undefined) throw new Error(`${error ?? status}: ${expr}`);
  return data.result.map(({ metric, value: [, value] }) => ({ metric, value: Number(value) }));
}

/** The path of a program of Prometheus. */
const programOf = (name: 'prometheus' | 'promtool'): Promise<string> => debianProgram(name, 'prometheus');
