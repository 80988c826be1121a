import { expect, vi } from 'vitest';

/** What a command left: as a process's exit, without a signal. */
export interface CommandExit {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

type Main = (argv: readonly string[]) => Promise<void>;

/**
 * Runs a command's `main` in this process: a process of its own takes half a second to start. What it writes and its exit
 * code are kept, and the environment is put back. One at a time; what a command does to its process (signals, standard
 * input, that it ends by itself) is a case for `startProcess`.
 */
export async function runMain(
  main: Main,
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>> = {},
): Promise<CommandExit> {
  const output = { stdout: '', stderr: '' };
  const spies = (['stdout', 'stderr'] as const).map((name) =>
    vi.spyOn(process[name], 'write').mockImplementation((text) => {
      output[name] += String(text);
      return true;
    }),
  );
  const before = { ...process.env };
  setEnvironment(env);
  takeExitCode();
  try {
    await main(args);
    return { code: takeExitCode(), ...output };
  } finally {
    takeExitCode();
    setEnvironment(Object.fromEntries(Object.keys(env).map((name) => [name, before[name]])));
    for (const spy of spies) spy.mockRestore();
  }
}

/** The output of a command that has to succeed without a word on stderr. */
export async function outputOf(running: Promise<CommandExit>): Promise<string> {
  const { code, stdout, stderr } = await running;
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return stdout;
}

/** The last line of that output, which is JSON. */
export async function jsonOf<T = Record<string, unknown>>(running: Promise<CommandExit>): Promise<T> {
  return JSON.parse((await outputOf(running)).trimEnd().split('\n').at(-1) ?? '') as T;
}

/** What this process would exit with; 0 from here on. */
function takeExitCode(): number {
  const code = process.exitCode;
  process.exitCode = undefined;
  return Number(code ?? 0);
}

function setEnvironment(env: Readonly<Record<string, string | undefined>>): void {
  for (const [name, value] of Object.entries(env)) {
    if (value === undefined) Reflect.deleteProperty(process.env, name);
    else process.env[name] = value;
  }
}
