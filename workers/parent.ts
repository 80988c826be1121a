import { readFileSync } from 'node:fs';
import { isatty } from 'node:tty';
import type { Environment } from '../src/environment/values.ts';

/** The variable in which processes.ts tells a worker process its number. */
export const NUMBER_VARIABLE = 'PUSHPACER_WORKER';

/** This worker's number among the workers of its parent (processes.ts), from 1 on; undefined if it has no such parent. */
export function numberOf(env: Environment): number | undefined {
  const number = Number(env[NUMBER_VARIABLE]);
  return process.send !== undefined && number > 0 ? number : undefined;
}

/** What the parent asks a worker: for its pages. */
export type Question = 'metrics' | 'sick' | 'ready';

export interface Asked {
  readonly id: number;
  readonly question: Question;
}

/** A message from a worker to its parent: the answer to the question with this id, or the BullMQ workers that take jobs. */
export type Told = { readonly id: number; readonly answer: unknown } | { readonly workerIds: readonly string[] };

/** Tells the parent, if there is one, which BullMQ workers take jobs in this process now. */
export function tellWorkerIds(workerIds: readonly string[], env: Environment): void {
  if (numberOf(env) !== undefined) tellParent({ workerIds });
}

function tellParent(message: Told): void {
  process.send?.(message, undefined, undefined, () => undefined); // the parent may have ended
}

/** Answers the questions of the parent until `close`. A failed answer is not sent: the parent waits only for a while. */
export function answerParent(answers: Readonly<Record<Question, () => unknown>>): { close(): Promise<void> } {
  const answer = async ({ id, question }: Asked): Promise<void> => {
    tellParent({ id, answer: await answers[question]() });
  };
  const onMessage = (asked: unknown): void => void answer(asked as Asked).catch(() => undefined);
  process.on('message', onMessage);
  return {
    close: () => {
      process.off('message', onMessage);
      return Promise.resolve();
    },
  };
}

/**
 * npm and npx stand between a supervisor and its worker, and do not pass every signal on: after a SIGTERM they have ended, and
 * the worker would go on alone, where no supervisor can stop it. So such a worker says at the start how it should be started,
 * and ends when npm has ended.
 */
export interface Parent {
  /** npm, npx or a similar program started this process, directly or by a shell of its own. */
  readonly isNpm: boolean;
  /** Whether npm has ended since, and left this process behind. */
  isGone(): boolean;
}

/** What the system knows about a process. */
interface Known {
  /** Its arguments with spaces between them; or its title, if it has set one, as npm does. */
  readonly command: string;
  readonly parentPid: number;
}

export interface Processes {
  /** The parent of this process now. */
  parentPid(): number;
  /** Undefined if the process has ended, or the system does not say (there is no /proc). */
  look(pid: number): Known | undefined;
}

/** `npm exec pushpacer worker`, `node /usr/lib/node_modules/npm/bin/npx-cli.js pushpacer`, `node /opt/yarn.cjs worker`. */
const NPM = /(^|[/ ])(npm|npx|pnpm|pnpx|yarn|yarnpkg)(-cli)?(\.[cm]?js)?( |$)/;
/** The shell by which npm runs a command. */
const SHELL = /(^|\/)(sh|bash|dash|ash|zsh) -\w*c /;

/** Finds out which program started this process. */
export function findParent(env: Environment, processes: Processes = thisSystem): Parent {
  const none: Parent = { isNpm: false, isGone: () => false };
  if (env['npm_command'] === undefined && env['npm_lifecycle_event'] === undefined) return none;
  const parentPid = processes.parentPid();
  const parent = processes.look(parentPid);
  // If the parent cannot be looked at, npm's variables decide. (Otherwise they do not, because children of npm's programs
  // inherit them too.)
  if (parent === undefined || NPM.test(parent.command)) {
    return { isNpm: true, isGone: () => processes.parentPid() !== parentPid };
  }
  const isOfNpm = SHELL.test(parent.command) && NPM.test(processes.look(parent.parentPid)?.command ?? '');
  if (!isOfNpm) return none;
  const isGone = (): boolean =>
    processes.parentPid() !== parentPid || processes.look(parentPid)?.parentPid !== parent.parentPid;
  return { isNpm: true, isGone };
}

const thisSystem: Processes = {
  parentPid: () => process.ppid,
  look(pid) {
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
      // `42 (a name) S 7 …`: the name may have spaces and brackets.
      const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
      const parentPid = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
      return { command, parentPid };
    } catch {
      return undefined;
    }
  },
};

/** Whether standard input is not a terminal, so that nobody can press Ctrl-C: for example under a supervisor. */
export function isUnattended(): boolean {
  return !isatty(0);
}

const LOOK_EVERY_MS = 1_000;

/** Calls `gone` once when npm has ended. It keeps no process alive. */
export function whenGone(parent: Parent, gone: () => void): void {
  if (!parent.isNpm) return;
  const timer = setInterval(() => {
    if (!parent.isGone()) return;
    clearInterval(timer);
    gone();
  }, LOOK_EVERY_MS).unref();
}

export const STARTED_BY_NPM =
  'npm or npx started this worker, and no terminal is there: they do not hand every signal on, so a supervisor cannot stop the ' +
  'worker in order; start node_modules/.bin/pushpacer worker instead (from a shell: exec node_modules/.bin/pushpacer worker)';
