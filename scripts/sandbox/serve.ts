import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PLATFORMS } from '../../src/domain/notification.ts';
import { parseScriptText } from '../../src/sandbox/answers/schema.ts';
import type { ScriptedAnswer } from '../../src/sandbox/answers/scripted.ts';
import { serveControl, type ControlServer } from '../../src/sandbox/control/server.ts';
import type { JournalEntry } from '../../src/sandbox/journal-entry.ts';
import type { Counts } from '../../src/sandbox/loopback/server.ts';
import type { Latency } from '../../src/sandbox/loopback/timing.ts';
import { startSandbox, type Sandbox } from '../../src/sandbox/sandbox.ts';
import { CommandError, printJson } from '../support/command.ts';
import {
  CONTROL_VARIABLE,
  ENV_FILE,
  keptPorts,
  nameOf,
  portFlag,
  portsBy,
  SERVER_NAMES,
  shellLines,
  writeEnvironment,
  type Ports,
  type ServerName,
} from './environment.ts';
import { requestJson, requestLine } from './lines.ts';

/** `apnsPort` and so on: a port that was asked for. */
type PortFlags = { readonly [Name in `${ServerName}Port`]?: number };

export interface Flags extends PortFlags {
  readonly controlHost: string;
  readonly host: string;
  readonly name?: string;
  readonly dir?: string;
  readonly script?: string;
  readonly latency?: Latency;
  readonly keep: number;
  readonly json?: true;
  readonly quiet?: true;
}

/** Addresses that stand for every interface: to listen on, not to be reached at. */
const WILDCARDS = ['0.0.0.0', '::'];

/** Serves until a signal comes. The environment is written and printed when all servers listen. */
export async function serve(flags: Flags): Promise<void> {
  const asked = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]);
  const answers = flags.script === undefined ? [] : await readScript(flags.script);
  const ports = await portsOf(flags);
  const fail = (error: unknown): never => explain(error, ports, flags);
  const sandbox = await start(flags, ports, answers).catch(fail);
  let control: ControlServer | undefined;
  try {
    const { controlHost, name } = flags;
    control = await serveControl(sandbox, { port: ports.control, host: controlHost, name }).catch(fail);
    const url = controlUrl(flags, control.port);
    const variables = { ...sandbox.env(), [CONTROL_VARIABLE]: url };
    if (flags.dir !== undefined) await writeEnvironment(flags.dir, variables);
    tellReady(flags, sandbox, variables, url);
    tellRequests(sandbox, flags);
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

/** By the flags, else those that the folder has kept, else any free ones. */
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

/** The environment on standard output, for programs; then lines for a person on standard error. */
function tellReady(
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

function tellRequests({ journal }: Pick<Sandbox, 'journal'>, { quiet, json }: Flags): void {
  if (quiet === true) return;
  const show = (entry: JournalEntry): void => {
    if (json === true) printJson(requestJson(entry));
    else process.stderr.write(`${requestLine(entry)}\n`);
  };
  journal.all.forEach(show); // a worker that waited for these ports may have been quicker
  journal.on(show);
}

function summarise(sandbox: Sandbox, json: boolean): void {
  const summary = Object.fromEntries(PLATFORMS.map((platform) => [platform, sandbox[platform].counts]));
  for (const [platform, counts] of Object.entries(summary)) process.stderr.write(`${platform}: ${tell(counts)}\n`);
  if (json) printJson(summary);
}

function tell({ accepted, requests, connections }: Counts): string {
  return `${accepted} alerts accepted, of ${requests} requests on ${connections} connections`;
}

/** For failures that a person can correct: a port in use, an address of another machine, a folder without write permission. */
function explain(error: unknown, ports: Ports, flags: Flags): never {
  if (!(error instanceof Error && 'code' in error)) throw error;
  const taken = error.code === 'EADDRINUSE' && 'port' in error ? error.port : undefined;
  const server = SERVER_NAMES.find((name) => ports[name] === taken);
  if (server === undefined) throw new CommandError(error.message);
  const isKept = flags.dir !== undefined && flags[`${server}Port`] === undefined;
  const origin = isKept ? `, kept in ${join(flags.dir, ENV_FILE)},` : '';
  throw new CommandError(
    `port ${ports[server]} of ${nameOf(server)}${origin} is taken. Stop the other program, maybe another sandbox, ` +
      `or choose with ${portFlag(server)} (0: any free port)`,
  );
}
