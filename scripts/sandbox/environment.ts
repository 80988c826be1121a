import { shellQuoted } from '../support/text.ts';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { PLATFORMS, type Platform } from '../../src/domain/notification.ts';
import { WORDS } from '../../src/sandbox/answers/words.ts';
import { writePrivateFile } from '../../src/sandbox/keys/keys.ts';
import { SERVER_KINDS } from '../../src/sandbox/servers.ts';

type Variables = Readonly<Record<string, string>>;

/** The file in `--dir` that other processes read the environment from, and the next start its ports. */
export const ENV_FILE = 'sandbox.env';
/** Where the control endpoint is. The other variables are a worker's. */
export const CONTROL_VARIABLE = 'SANDBOX_URL';

export type ServerName = Platform | 'control';
export const SERVER_NAMES: readonly ServerName[] = [...PLATFORMS, 'control'];
export type Ports = Readonly<Record<ServerName, number>>;

/** The flag of a server's port. */
export function portFlag(server: ServerName): string {
  return `--${server}-port`;
}

/** A server as people write it. */
export function nameOf(server: ServerName): string {
  return server === 'control' ? 'the control endpoint' : WORDS[server].name;
}

/** The variable that has the server's URL. */
export function variableOf(server: ServerName): string {
  return server === 'control' ? CONTROL_VARIABLE : SERVER_KINDS[server].urlVariable;
}

/** One port for each server. */
export function portsBy(portOf: (name: ServerName) => number): Ports {
  return Object.fromEntries(SERVER_NAMES.map((name) => [name, portOf(name)])) as Ports;
}

/** The ports of the last start with this folder; 0, any free one, where it had none. */
export async function keptPorts(dir: string): Promise<Ports> {
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
export async function writeEnvironment(dir: string, variables: Variables): Promise<void> {
  await writePrivateFile(join(dir, ENV_FILE), shellLines(variables));
}

/** One `KEY='value'` a line, which both a shell and a compose env file can read. */
export function shellLines(variables: Variables): string {
  const lines = Object.entries(variables).map(([key, value]) => `${key}=${shellQuoted(value)}\n`);
  return lines.join('');
}
