import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseScriptText, type ScriptedAnswer, WORDS } from '../sandbox/answers.ts';
import { serveControl, type ControlServer } from '../sandbox/control.ts';
import { type JournalEntry, entryLine, tokenStart } from '../sandbox/journal.ts';
import type { Counts } from '../sandbox/loopback/server.ts';
import { DEFAULT_LATENCY, latencyFault, NO_LATENCY, type Latency } from '../sandbox/loopback/timing.ts';
import {
  CHANNELS_VARIABLE,
  SERVER_KINDS,
  startSandbox,
  type Sandbox,
  WILDCARDS,
  writePrivateFile,
} from '../sandbox/sandbox.ts';
import { PLATFORMS, type Platform } from '../src/notification/notification.ts';
import { parseRules, type Rule } from '../src/domain/limits.ts';
import { parseDuration } from '../src/domain/time.ts';
import { listenError, type ListenAt } from '../src/environment/listening.ts';
import {
  createCommand,
  runCommand,
  UsageError,
  integer,
  CommandError,
  printJson,
  untilStopped,
} from '../src/terminal/command.ts';
import { shellQuoted } from '../src/terminal/text.ts';

/** How many requests the journal keeps if `--keep` is not given: with full payloads, some megabytes. */
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
    command.option(
      `${portFlag(server)} <port>`,
      portHelp(nameOf(server)),
      integer(portFlag(server), 0, 65_535, 'a port'),
    );
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
    .option(
      '--webpush-limit <max/per>',
      'web push: the most pushes of one website, as 1000/1m; the rest is 429 with Retry-After',
      siteLimit,
    )
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

/** `1000/1m` */
function siteLimit(text: string): Rule {
  const parsed = parseRules(text, '--webpush-limit');
  const [rule, ...more] = parsed.ok ? parsed.rules : [];
  if (rule !== undefined && more.length === 0) return rule;
  throw new UsageError(`--webpush-limit: expected one rule as max/per, such as 1000/1m, found ${JSON.stringify(text)}`);
}

/** `apnsPort` and so on: the ports that the flags ask for. */
type PortFlags = { readonly [Name in `${ServerName}Port`]?: number };

export interface Flags extends PortFlags {
  readonly controlHost: string;
  readonly host: string;
  readonly name?: string;
  readonly dir?: string;
  readonly script?: string;
  readonly latency?: Latency;
  readonly keep: number;
  readonly webpushLimit?: Rule;
  readonly json?: true;
  readonly quiet?: true;
}

/**
 * Runs the servers until a signal to stop comes. When all servers listen, the environment variables for a worker are printed,
 * and written into the folder `dir` if one is given.
 */
export async function serve(flags: Flags): Promise<void> {
  const asked = untilStopped();
  const answers = flags.script === undefined ? [] : await readScript(flags.script);
  const ports = await portsOf(flags);
  const sandbox = await start(flags, ports, answers).catch((error: unknown) =>
    explain(error, ports, flags, ['--host', flags.host]),
  );
  sandbox.webpush.limitSite(flags.webpushLimit);
  let control: ControlServer | undefined;
  try {
    const { controlHost, name } = flags;
    const fail = (error: unknown): never => explain(error, ports, flags, ['--control-host', controlHost]);
    control = await serveControl(sandbox, { port: ports.control, host: controlHost, name }).catch(fail);
    const url = controlUrl(flags, control.port);
    const variables = { ...sandbox.env(), [CONTROL_VARIABLE]: url };
    if (flags.dir !== undefined) await writeEnvironment(flags.dir, variables);
    printReady(flags, sandbox, variables, url);
    printRequests(sandbox, flags);
    await asked;
  } finally {
    await control?.close();
    await sandbox.close();
  }
  summarise(sandbox, flags.json === true);
}

function start(flags: Flags, ports: Ports, answers: readonly ScriptedAnswer[]): Promise<Sandbox> {
  const { host, name, dir, latency, keep } = flags;
  return startSandbox({ host, name, dir, latency, keep, answers, ports });
}

/** The ports of the flags, else those that the folder has kept, else any free ones. */
async function portsOf(flags: Flags): Promise<Ports> {
  const kept = flags.dir === undefined ? undefined : await keptPorts(flags.dir);
  return portsBy((name) => flags[`${name}Port`] ?? kept?.[name] ?? 0);
}

async function readScript(path: string): Promise<readonly ScriptedAnswer[]> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    throw new CommandError(`--script: ${(error as Error).message}`);
  });
  return parseScriptText(text, `--script ${path}`);
}

function controlUrl({ controlHost, name }: Flags, port: number): string {
  const isWildcard = WILDCARDS.includes(controlHost);
  const host = isWildcard ? (name ?? '127.0.0.1') : controlHost;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** Prints the environment on standard output, for programs; then lines for a person on standard error. */
function printReady(
  { json }: Flags,
  { webpush }: Pick<Sandbox, 'webpush'>,
  variables: Readonly<Record<string, string>>,
  url: string,
): void {
  if (json === true) printJson(variables);
  else process.stdout.write(shellLines(variables));
  process.stderr.write(`ready. Script the answers and read the journal at ${url}; Ctrl-C stops the sandbox\n`);
  process.stderr.write(`a subscription for web push: ${JSON.stringify(webpush.subscription('ana'))}\n`);
}

function printRequests({ journal }: Pick<Sandbox, 'journal'>, { quiet, json }: Flags): void {
  if (quiet === true) return;
  const show = (entry: JournalEntry): void => {
    if (json === true) printJson(requestJson(entry));
    else process.stderr.write(`${entryLine(entry)}\n`);
  };
  journal.all.forEach(show); // a worker that waited for these ports may have sent requests already
  journal.on(show);
}

function summarise(sandbox: Sandbox, json: boolean): void {
  const summary = Object.fromEntries(PLATFORMS.map((platform) => [platform, sandbox[platform].counts]));
  for (const [platform, counts] of Object.entries(summary))
    process.stderr.write(`${platform}: ${countsText(counts)}\n`);
  if (json) printJson(summary);
}

function countsText({ accepted, requests, connections }: Counts): string {
  return `${accepted} alerts accepted, of ${requests} requests on ${connections} connections`;
}

/** Explains failures that a person can correct: a port in use, an address of another machine, a folder without write permission. */
function explain(error: unknown, ports: Ports, flags: Flags, host: ListenAt['host']): never {
  if (!(error instanceof Error && 'code' in error)) throw error;
  const port = 'port' in error ? error.port : undefined;
  const server = SERVER_NAMES.find((name) => ports[name] === port);
  if (error.code !== 'EADDRINUSE' || server === undefined) {
    const listening = listenError(error, {
      host,
      port: [server === undefined ? 'port' : portFlag(server), Number(port)],
    });
    throw listening === error ? new CommandError(error.message) : listening;
  }
  const isKept = flags.dir !== undefined && flags[`${server}Port`] === undefined;
  const origin = isKept ? `, kept in ${join(flags.dir, ENV_FILE)},` : '';
  throw new CommandError(
    `port ${ports[server]} of ${nameOf(server)}${origin} is taken. Stop the other program, maybe another sandbox, ` +
      `or choose with ${portFlag(server)} (0: any free port)`,
  );
}

type Variables = Readonly<Record<string, string>>;

/** The file in `--dir`: other processes read the environment from it, and the next start reads its ports. */
const ENV_FILE = 'sandbox.env';
/** The variable with the URL of the control endpoint. The other variables are those of a worker. */
const CONTROL_VARIABLE = 'SANDBOX_URL';

/** `channels`: APNs' management of channels. */
type ServerName = Platform | 'channels' | 'control';
export const SERVER_NAMES: readonly ServerName[] = [...PLATFORMS, 'channels', 'control'];
type Ports = Readonly<Record<ServerName, number>>;

/** The flag of a server's port. */
export function portFlag(server: ServerName): string {
  return `--${server}-port`;
}

/** The name of a server as people write it. */
export function nameOf(server: ServerName): string {
  if (server === 'channels') return "APNs' management of channels";
  return server === 'control' ? 'the control endpoint' : WORDS[server].name;
}

/** The name of the variable with the server's URL. */
export function variableOf(server: ServerName): string {
  if (server === 'channels') return CHANNELS_VARIABLE;
  return server === 'control' ? CONTROL_VARIABLE : SERVER_KINDS[server].urlVariable;
}

/** One port for each server. */
function portsBy(portOf: (name: ServerName) => number): Ports {
  return Object.fromEntries(SERVER_NAMES.map((name) => [name, portOf(name)])) as Ports;
}

/** The ports of the last start with this folder. If it had none, each is 0, which means any free one. */
async function keptPorts(dir: string): Promise<Ports> {
  const text = await readFile(join(dir, ENV_FILE), 'utf8').catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    return '';
  });
  const portOf = (name: ServerName): number => {
    const port = new RegExp(`^${variableOf(name)}='https?://[^']*:(\\d{1,5})'$`, 'm').exec(text)?.[1];
    return port === undefined || Number(port) > 65_535 ? 0 : Number(port);
  };
  return portsBy(portOf);
}

/** Writes the environment for other processes and for the next start. */
async function writeEnvironment(dir: string, variables: Variables): Promise<void> {
  await writePrivateFile(join(dir, ENV_FILE), shellLines(variables));
}

/** One `KEY='value'` in each line: both a shell and a compose env file can read that. */
function shellLines(variables: Variables): string {
  const lines = Object.entries(variables).map(([key, value]) => `${key}=${shellQuoted(value)}\n`);
  return lines.join('');
}

/** A request for a program, under `--json`: fields of the journal, with the beginning of the token and without the alert's text. */
function requestJson(entry: JournalEntry): Readonly<Record<string, unknown>> {
  const { at, platform, token, accepted, status, reason, title, apnsId, tag, collapseId } = entry;
  return { at, platform, token: tokenStart(token), accepted, status, reason, title, apnsId, tag, collapseId };
}

if (import.meta.main) await main(process.argv.slice(2));
