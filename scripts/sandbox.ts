import { parseDuration } from '../src/domain/time.ts';
import { DEFAULT_LATENCY, latencyFault, NO_LATENCY, type Latency } from '../src/sandbox/loopback/timing.ts';
import { ENV_FILE, nameOf, portFlag, SERVER_NAMES } from './sandbox/environment.ts';
import { serve, type Flags } from './sandbox/serve.ts';
import { createCommand, runCommand, UsageError } from './support/command.ts';
import { integer } from './support/flags.ts';

/** How many requests the journal keeps, where `--keep` is left out: with full payloads, some megabytes. */
const KEEP = 1_000;

/** `npm run sandbox`: APNs, FCM and web push in the foreground, for development. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand(
    'sandbox',
    'Runs APNs, FCM and a web push service on the loopback until it is interrupted, and prints the environment that points a worker at them. ' +
      'Then a line for each request: the time, the platform, the beginning of the token, the outcome and the title.',
  )
    .option(
      '--dir <folder>',
      `keep the key files there, and the environment as ${ENV_FILE}: the next start has the same ports`,
    )
    .option('--script <file>', 'what requests are answered, as JSON: { "answers": [ … ] } (docs/testing.md)')
    .option('--latency <median,p99>', LATENCY_HELP, latency);
  for (const server of SERVER_NAMES) {
    command.option(`${portFlag(server)} <port>`, portHelp(nameOf(server)), port(portFlag(server)));
  }
  command
    .option('--host <address>', 'the address that the providers listen on', '127.0.0.1')
    .option(
      '--control-host <address>',
      'the address that the control endpoint listens on: /answers, /journal, /healthz',
      '127.0.0.1',
    )
    .option('--name <host>', 'the host name that workers reach it by, such as a compose service (default: the address)')
    .option('--keep <n>', 'how many of the latest requests the journal keeps', integer('--keep', 1, 1_000_000), KEEP)
    .option('--quiet', 'no line for each request')
    .option('--json', 'JSON lines on standard output: the environment, each request (not with --quiet), the summary')
    .action((flags: Flags) => serve(flags));
  await runCommand(command, argv);
}

const LATENCY_HELP =
  'how long answers take: the median and the 99th percentile, such as 40ms,250ms; 0 for none, and then no delay of ' +
  `handshakes and no closing of idle connections either (default: ${DEFAULT_LATENCY.medianMs}ms,${DEFAULT_LATENCY.p99Ms}ms)`;

function portHelp(of: string): string {
  return `the port of ${of} (default: that of the last start with --dir, or a free one)`;
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
