import { readFileSync } from 'node:fs';
import { describeFound, nearest } from '../../src/domain/faults.ts';
import { EXIT, helpItem } from '../../src/terminal/command.ts';
import { endWithReader, red } from '../../src/terminal/text.ts';

const usage = () => `Usage: pushpacer <command> [options]

${Object.entries(COMMANDS)
  .map(([name, { does }]) => helpItem(name, does, 12))
  .join('\n')}

${helpItem('pushpacer <command> --help', "a command's options; also pushpacer help <command>", 26)}
${helpItem('pushpacer --version', "this program's version", 26)}
`;

/** `pushpacer enqueue --file F`: the commands of `npm run`, under one name. */
export async function main([name = '--help', ...argv]: readonly string[]): Promise<void> {
  endWithReader();
  if (name === '--help' || name === '-h' || (name === 'help' && argv[0] === undefined)) {
    process.stdout.write(usage());
    return;
  }
  if (name === 'help') {
    await main([...argv, '--help']);
    return;
  }
  if (name === '--version' || name === '-V') {
    process.stdout.write(`${version()}\n`);
    return;
  }
  const command = await loadCommand(name);
  if (command === undefined) {
    const meant = nearest(name, Object.keys(COMMANDS));
    const advice = meant === undefined ? '' : `; did you mean ${meant}?`;
    process.stderr.write(`${red('error:')} no command ${describeFound(name)}${advice}\n\n${usage()}`);
    process.exitCode = EXIT.usage;
    return;
  }
  await command(argv);
}

/** The version in package.json, which is one folder higher if this file runs from `dist`. */
function version(): string {
  const here = import.meta.url.endsWith('.ts') ? '../../package.json' : '../../../package.json';
  return (JSON.parse(readFileSync(new URL(here, import.meta.url), 'utf8')) as { version: string }).version;
}

export type CommandMain = (argv: readonly string[]) => Promise<void>;

interface CommandEntry {
  readonly does: string;
  /** Loads the command's module only when the command is called, since each command needs other modules. */
  readonly load: () => Promise<{ readonly main: CommandMain }>;
}

export const COMMANDS: Readonly<Record<string, CommandEntry>> = {
  worker: { does: 'one worker or several, from the environment', load: () => import('../../workers/notifications.ts') },
  doctor: { does: 'whether a worker can start with this environment', load: () => import('../doctor.ts') },
  status: { does: 'how workers and queue are, or what became of one notification', load: () => import('../status.ts') },
  why: { does: 'why one notification waits, or why it was late', load: () => import('../why.ts') },
  enqueue: { does: 'validate notifications and enqueue them', load: () => import('../enqueue.ts') },
  cancel: { does: 'notifications that wait, canceled', load: () => import('../cancel.ts') },
  retract: { does: 'notifications taken back, from devices too', load: () => import('../retract.ts') },
  'dead-letters': { does: 'what could not be delivered, and why', load: () => import('../dead-letters.ts') },
  replay: { does: 'dead letters back into the queue', load: () => import('../replay.ts') },
  discard: { does: 'dead letters removed for good', load: () => import('../discard.ts') },
  reshard: { does: 'another number of shards, while workers run', load: () => import('../reshard.ts') },
  channel: { does: "Apple's channels: create, list, show or delete one", load: () => import('../channel.ts') },
  recipient: { does: 'show one recipient, or act on it', load: () => import('../recipient.ts') },
  api: { does: 'the HTTP API for producers', load: () => import('../../api/api.ts') },
  token: { does: 'the bearer tokens of the HTTP API', load: () => import('../../api/token.ts') },
  console: { does: 'the console of an operator, as web pages', load: () => import('../../console/console.ts') },
  serve: { does: 'the HTTP API and the console in one process', load: () => import('../../console/serve.ts') },
  demo: { does: 'a morning at a school, delivered and judged', load: () => import('../../demo/demo.ts') },
  dev: { does: 'all that an app needs on this machine, in one process', load: () => import('../dev.ts') },
  sandbox: { does: 'the loopback servers of APNs, FCM and web push', load: () => import('../sandbox.ts') },
  redis: { does: 'a Redis on the loopback, for development', load: () => import('../redis.ts') },
  completion: {
    does: 'completes commands and flags in bash, zsh or fish',
    load: async () => ({ main: (await import('./completion.ts')).completionOf(COMMANDS) }),
  },
};

/** Loads a command; undefined if there is none of this name. */
export async function loadCommand(name: string): Promise<CommandMain | undefined> {
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined;
  return (await command?.load())?.main;
}
