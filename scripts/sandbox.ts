import { once } from 'node:events';
import { join } from 'node:path';
import { parseDuration } from '../src/domain/time.ts';
import { DEFAULT_LATENCY, latencyFault, NO_LATENCY, type Latency } from '../src/sandbox/loopback/timing.ts';
import type { Counts } from '../src/sandbox/loopback/server.ts';
import type { JournalEntry } from '../src/sandbox/journal.ts';
import { writePrivateFile } from '../src/sandbox/keys/keys.ts';
import { startSandbox, type Sandbox } from '../src/sandbox/sandbox.ts';
import { CommandError, createCommand, printJson, runCommand, UsageError } from './support/command.ts';

interface Flags {
  readonly apnsPort?: number;
  readonly fcmPort?: number;
  readonly host: string;
  readonly name?: string;
  readonly dir?: string;
  readonly latency?: Latency;
  readonly json?: true;
  readonly quiet?: true;
}

/** The file in `--dir` that other processes read the environment from. */
const ENV_FILE = 'sandbox.env';

/** `npm run sandbox`: APNs and FCM in the foreground, for development. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand(
    'sandbox',
    'Runs APNs and FCM on the loopback until it is interrupted, and prints the environment that points a worker at them.',
  )
    .option('--apns-port <port>', 'the port of APNs (default: a free one)', port('--apns-port'))
    .option('--fcm-port <port>', 'the port of FCM (default: a free one)', port('--fcm-port'))
    .option('--host <address>', 'the address to listen on', '127.0.0.1')
    .option('--name <host>', 'the host name that workers reach it by, such as a compose service (default: the address)')
    .option('--dir <folder>', `keep the key files there, for the next start too, and the environment as ${ENV_FILE}`)
    .option(
      '--latency <median,p99>',
      `how long answers take: the median and the 99th percentile, such as 40ms,250ms; 0 for none, and then no delay of handshakes and no closing of idle connections either (default: ${DEFAULT_LATENCY.medianMs}ms,${DEFAULT_LATENCY.p99Ms}ms)`,
      latency,
    )
    .option('--quiet', 'no line for each accepted alert')
    .option('--json', 'the environment, and at the end the summary, as one JSON object each')
    .action((flags: Flags) => serve(flags));
  await runCommand(command, argv);
}

async function serve({ json, quiet, ...options }: Flags): Promise<void> {
  const asked = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
  const sandbox = await startSandbox({ ...options, keep: 0 }).catch(explain);
  try {
    if (quiet !== true) sandbox.journal.on(tellAlert);
    const variables = sandbox.env();
    if (options.dir !== undefined) await writePrivateFile(join(options.dir, ENV_FILE), shellLines(variables));
    if (json === true) printJson(variables);
    else process.stdout.write(shellLines(variables));
    await asked;
  } finally {
    await sandbox.close();
  }
  summarise(sandbox, json === true);
}

function summarise({ apns, fcm }: Pick<Sandbox, 'apns' | 'fcm'>, json: boolean): void {
  const summary = { apns: apns.counts, fcm: fcm.counts };
  for (const [platform, counts] of Object.entries(summary)) process.stderr.write(`${platform}: ${tell(counts)}\n`);
  if (json) printJson(summary);
}

function tell({ accepted, requests, connections }: Counts): string {
  return `${accepted} alerts accepted, of ${requests} requests on ${connections} connections`;
}

/** `apns a1b2… priority 10`: enough to follow, without the token and the alert's texts. */
function tellAlert({ accepted, platform, token, priority = 'default' }: JournalEntry): void {
  if (!accepted) return;
  const start = token.slice(0, Math.min(4, token.length / 2));
  process.stderr.write(`${platform} ${start}… priority ${priority}\n`);
}

/** One `KEY='value'` a line, which both a shell and a compose env file can read. */
function shellLines(variables: Readonly<Record<string, string>>): string {
  const lines = Object.entries(variables).map(([key, value]) => `${key}='${value.replaceAll("'", `'\\''`)}'\n`);
  return lines.join('');
}

/** For failures that a person can correct: a port in use, an address of another machine, a folder without write permission. */
function explain(error: unknown): never {
  if (error instanceof Error && 'code' in error) throw new CommandError(error.message);
  throw error;
}

function port(flag: string): (text: string) => number {
  return (text) => {
    const value = /^\d{1,5}$/.test(text) ? Number(text) : NaN;
    if (value <= 65_535) return value;
    throw new UsageError(`${flag}: expected a port from 0 to 65535, found ${JSON.stringify(text)}`);
  };
}

/** `40ms,250ms` or `0`. */
function latency(text: string): Latency {
  if (text === '0') return NO_LATENCY;
  const [medianMs, p99Ms, ...rest] = text.split(',').map((part) => parseDuration(part.trim()));
  if (medianMs === undefined || p99Ms === undefined || rest.length > 0) {
    throw new UsageError(`--latency: expected two durations such as 40ms,250ms, or 0, found ${JSON.stringify(text)}`);
  }
  const fault = latencyFault({ medianMs, p99Ms });
  if (fault !== undefined) throw new UsageError(`--latency: ${fault}`);
  return { medianMs, p99Ms };
}

if (import.meta.main) await main(process.argv.slice(2));
