#!/usr/bin/env node
import { readFileSync } from 'node:fs';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { EXIT } from './support/command.ts';

/** Each command's module, from here, and what it does. A module exports `main(argv)`. */
const COMMANDS: Readonly<Record<string, readonly [module: string, does: string]>> = {
  demo: ['./demo', 'the main job on an embedded Redis and loopback providers, judged by what those received'],
  chaos: ['./chaos', 'faults of workers, Redis and providers during delivery, and whether the guarantees hold'],
  worker: ['../workers/notifications', 'one replica, from the environment'],
  enqueue: ['./enqueue', 'validate notifications and enqueue them'],
  'dead-letters': ['./dead-letters', 'what could not be delivered, and why'],
  replay: ['./replay', 'dead letters back into the queue'],
  discard: ['./discard', 'dead letters removed for good'],
  recipient: ['./recipient', 'show one recipient, or act on it'],
  sandbox: ['./sandbox', 'the loopback APNs and FCM servers'],
  redis: ['./redis', 'a Redis on the loopback, for development'],
};

const USAGE = `Usage: pushpacer <command> [options]

${Object.entries(COMMANDS)
  .map(([name, [, does]]) => `  ${name.padEnd(13)} ${does}`)
  .join('\n')}

  pushpacer <command> --help shows a command's options; --version this program's version.
`;

interface CommandModule {
  main(argv: readonly string[]): Promise<void>;
}

/** `pushpacer enqueue --file F`: the commands of `npm run`, under one name. */
async function main([name = '--help', ...argv]: readonly string[]): Promise<void> {
  if (name === '--help' || name === '-h') {
    process.stdout.write(USAGE);
    return;
  }
  if (name === '--version' || name === '-V') {
    process.stdout.write(`${version()}\n`);
    return;
  }
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  if (command === undefined) {
    process.stderr.write(`error: no command ${JSON.stringify(name)}\n\n${USAGE}`);
    process.exitCode = EXIT.usage;
    return;
  }
  const file = new URL(`${command[0]}${extname(fileURLToPath(import.meta.url))}`, import.meta.url); // .ts here, .js built
  const module = (await import(file.href)) as CommandModule;
  await module.main(argv);
}

/** From package.json, which is one folder higher if this file runs from `dist`. */
function version(): string {
  const here = import.meta.url.endsWith('.ts') ? '../package.json' : '../../package.json';
  return (JSON.parse(readFileSync(new URL(here, import.meta.url), 'utf8')) as { version: string }).version;
}

await main(process.argv.slice(2));
