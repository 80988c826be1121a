import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import type { Terminal as Screen } from '@xterm/headless';
import { onTestFinished } from 'vitest';

// The package is CommonJS without names that Node finds.
const { Terminal } = createRequire(import.meta.url)('@xterm/headless') as { readonly Terminal: typeof Screen };

/** The emulator of a terminal, as a window shows it. */
export interface TestTerminal {
  readonly screen: Screen;
  /** What is to be seen, with what was scrolled away; without empty lines at the end. */
  lines(): Promise<string[]>;
  write(text: string): Promise<void>;
}

export function openTerminal(columns: number): TestTerminal {
  const screen = new Terminal({ cols: columns, rows: 24, allowProposedApi: true, convertEol: true });
  onTestFinished(() => {
    screen.dispose();
  });
  const write = (text: string): Promise<void> =>
    new Promise((resolve) => {
      screen.write(text, resolve);
    });
  return {
    screen,
    write,
    lines: async () => {
      await write('');
      const { active } = screen.buffer;
      const all = Array.from({ length: active.length }, (_, at) => active.getLine(at)?.translateToString(true) ?? '');
      return all.slice(0, all.findLastIndex((line) => line !== '') + 1);
    },
  };
}

export interface OnTerminal {
  /** A shell command; `node` is this Node. */
  readonly command: string;
  readonly columns: number;
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** Presses Ctrl-C when this has been written. */
  readonly interruptAt?: string;
  /** Types `text` when `at` has been written. */
  readonly typed?: { readonly at: string; readonly text: string };
  /** Calls `act` once `at` has been written. */
  readonly seen?: { readonly at: string; readonly act: () => void };
}

/** Runs a command on a pseudo-terminal to its end: its exit code, all that it wrote, and what is then to be seen. */
export async function runOnTerminal({ command, columns, env = {}, interruptAt, typed, seen }: OnTerminal) {
  const { at: pressAt, text: pressed } = typed ?? { at: interruptAt, text: '\x03' };
  const sized = `stty -echo cols ${columns} rows 24; exec ${command.replace(/^node /, `${process.execPath} `)}`;
  const child = spawn('script', ['-qec', sized, '/dev/null'], {
    // Node shows no colours where CI is set, whatever the terminal is.
    env: { ...process.env, CI: undefined, FORCE_COLOR: undefined, NO_COLOR: undefined, TERM: 'xterm-256color', ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  onTestFinished(() => void child.kill('SIGKILL'));
  let raw = '';
  let [isPressed, isSeen] = [false, false];
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    raw += text;
    if (seen !== undefined && !isSeen && raw.includes(seen.at)) {
      isSeen = true;
      seen.act();
    }
    if (pressAt === undefined || isPressed || !raw.includes(pressAt)) return;
    isPressed = true;
    child.stdin.write(pressed);
  });
  const [code] = (await once(child, 'close')) as [number | null];
  const terminal = openTerminal(columns);
  await terminal.write(raw);
  return { code, raw, lines: await terminal.lines() };
}
