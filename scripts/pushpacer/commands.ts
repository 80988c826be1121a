import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Each command's module, from here, and what it does. A module exports `main(argv)`. */
export const COMMANDS: Readonly<Record<string, readonly [module: string, does: string]>> = {
  demo: ['../demo', 'the main job on an embedded Redis and loopback providers, judged by what those received'],
  chaos: ['../chaos', 'faults of workers, Redis and providers during delivery, and whether the guarantees hold'],
  worker: ['../../workers/notifications', 'one replica, from the environment'],
  status: ['../status', 'how workers and queue are, or what became of one notification'],
  enqueue: ['../enqueue', 'validate notifications and enqueue them'],
  cancel: ['../cancel', 'notifications that wait, canceled'],
  'dead-letters': ['../dead-letters', 'what could not be delivered, and why'],
  replay: ['../replay', 'dead letters back into the queue'],
  discard: ['../discard', 'dead letters removed for good'],
  recipient: ['../recipient', 'show one recipient, or act on it'],
  sandbox: ['../sandbox', 'the loopback servers of APNs, FCM and web push'],
  redis: ['../redis', 'a Redis on the loopback, for development'],
  completion: ['../completion', 'completes commands and flags in bash, zsh or fish'],
};

export type CommandMain = (argv: readonly string[]) => Promise<void>;

/** Loads a command; undefined if there is none of this name. */
export async function loadCommand(name: string): Promise<CommandMain | undefined> {
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (command === undefined) return undefined;
  const file = new URL(`${command[0]}${extname(fileURLToPath(import.meta.url))}`, import.meta.url); // .ts here, .js built
  const module = (await import(file.href)) as { readonly main: CommandMain };
  return module.main;
}
