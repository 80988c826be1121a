import { createInterface } from 'node:readline/promises';
import { columnsOf, cut, widthOf } from './text.ts';

/** A progress bar: one line on standard error, erased at the end. Nothing is drawn if standard error is not a terminal. */
export interface Progress {
  /** Moves the bar to `done`, and changes the total if one is given. */
  update(done: number, total?: number): void;
  /** Writes one line above the bar. */
  say(line: string): void;
  stop(): void;
}

export interface ProgressOptions {
  /** `bytes`: shows sizes, such as 1.2 MB. */
  readonly unit?: 'bytes';
  readonly stream?: NodeJS.WriteStream;
}

/** Work that ends sooner than this shows no bar. */
const DRAW_EVERY_MS = 100;
/** The rate is measured over this time, so that the time left is right again soon after the speed has changed. */
const RATE_OF_MS = 10_000;
/**
 * Erases from the cursor to the end of the screen. The cursor always stays where the bar begins: if the window becomes narrower
 * and the terminal breaks the bar into two lines, both are erased.
 */
const ERASE = '\x1b[J';

interface Bar {
  draw(): void;
  erase(): void;
}
const shown = new Map<NodeJS.WriteStream, Bar>();

/** Writes one line, above the bar if there is one. A line that is written in another way may be mixed with the bar. */
export function say(line: string, stream: NodeJS.WriteStream = process.stderr): void {
  const bar = shown.get(stream);
  bar?.erase();
  stream.write(`${line}\n`);
  bar?.draw();
}

/**
 * `createProgress('replayed', 1200)` → `replayed ████░░░░ 50% 600/1,200 150/s, 4 s left`. Without a total, only the count and
 * the rate.
 */
export function createProgress(label: string, total?: number, options: ProgressOptions = {}): Progress {
  const { unit, stream = process.stderr } = options;
  if (columnsOf(stream) === undefined || process.env['TERM'] === 'dumb') {
    return { update: () => undefined, say: (line) => say(line, stream), stop: () => undefined };
  }
  let counted: Counted = { label, unit, done: 0, total, perSecond: undefined };
  let isDrawn = false;
  const bar: Bar = {
    draw: () => {
      if (!isDrawn) return;
      stream.write(`${ERASE}${barText(counted, columnsOf(stream) ?? 0)}\r`);
    },
    erase: () => {
      if (isDrawn) stream.write(ERASE);
    },
  };
  const meter = createMeter();
  const drawing = setInterval(() => {
    isDrawn = true;
    counted = { ...counted, perSecond: meter(counted.done) };
    bar.draw();
  }, DRAW_EVERY_MS).unref();
  const stop = (): void => {
    clearInterval(drawing);
    bar.erase();
    isDrawn = false;
    shown.delete(stream);
    process.off('exit', stop);
    for (const signal of SIGNALS) process.off(signal, onSignal);
  };
  // Erases the bar first; then the signal ends the program as it does without a bar.
  const onSignal = (signal: NodeJS.Signals): void => {
    stop();
    if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
  };
  shown.set(stream, bar);
  process.once('exit', stop);
  for (const signal of SIGNALS) process.once(signal, onSignal);
  return {
    update: (done, newTotal = counted.total) => {
      counted = { ...counted, done, total: newTotal };
    },
    say: (line) => say(line, stream),
    stop,
  };
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

/** Measures how many were done per second lately; undefined until this can be known. */
function createMeter(): (done: number) => number | undefined {
  const past = [{ at: performance.now(), done: 0 }];
  return (done) => {
    const now = performance.now();
    past.push({ at: now, done });
    while (past.length > 2 && (past[1]?.at ?? now) <= now - RATE_OF_MS) past.shift();
    const [first] = past;
    return first === undefined || now <= first.at
      ? undefined
      : Math.max(0, ((done - first.done) * 1_000) / (now - first.at));
  };
}

export interface Counted {
  readonly label: string;
  readonly unit: 'bytes' | undefined;
  readonly done: number;
  /** Undefined or 0: unknown. */
  readonly total: number | undefined;
  /** Undefined: not known yet. */
  readonly perSecond: number | undefined;
}

const WIDEST_BAR = 30;
const NARROWEST_BAR = 5;
/** A time left that is longer than this is only a guess, and is not shown. */
const MOST_LEFT_S = 99 * 3_600;

/** One line that is shorter than `columns`: first the bar becomes shorter, then it is left out, then the end is cut. */
export function barText({ label, unit, done, total = 0, perSecond }: Counted, columns: number): string {
  const room = columns - 1; // in the last column some terminals begin a new line
  const amount = (value: number) => (unit === 'bytes' ? size(value) : count(value));
  const rate = perSecond === undefined ? '' : speed(perSecond, unit);
  if (total <= 0) return cut(joined([label, amount(done), rate]), room);
  const share = Math.min(1, Math.max(0, done / total));
  const left = perSecond === undefined || perSecond <= 0 ? undefined : timeLeft((total - done) / perSecond);
  const facts = joined([
    `${Math.floor(share * 100)}%`,
    `${amount(done)}/${amount(total)}`,
    left === undefined ? rate : `${rate}, ${left}`,
  ]);
  const barWidth = Math.min(WIDEST_BAR, room - widthOf(label) - facts.length - 2);
  return cut(joined([label, barWidth < NARROWEST_BAR ? '' : bar(share, barWidth), facts]), room);
}

function joined(parts: readonly string[]): string {
  return parts.filter((part) => part !== '').join(' ');
}

function bar(share: number, width: number): string {
  const full = Math.floor(share * width);
  return `${'█'.repeat(full)}${'░'.repeat(width - full)}`;
}

/** `1,200` */
function count(value: number): string {
  return Math.round(value).toLocaleString('en-US');
}

/** `950 B`, `1.2 MB` */
function size(bytes: number): string {
  if (bytes < 1_000) return `${Math.round(bytes)} B`;
  const power = Math.min(3, Math.floor(Math.log10(bytes) / 3));
  return `${(bytes / 1_000 ** power).toFixed(1)} ${['B', 'kB', 'MB', 'GB'][power] ?? ''}`;
}

/** `1,200/s`, `0.5/s`, `1.2 MB/s` */
function speed(perSecond: number, unit: Counted['unit']): string {
  if (unit === 'bytes') return `${size(perSecond)}/s`;
  return `${perSecond > 0 && perSecond < 10 ? perSecond.toFixed(1) : count(perSecond)}/s`;
}

/** `3 s left`, `12 min left`, `2 h 5 min left`; undefined if it is too far ahead to say. */
function timeLeft(seconds: number): string | undefined {
  if (seconds > MOST_LEFT_S) return undefined;
  const whole = Math.max(0, Math.ceil(seconds));
  if (whole < 60) return `${whole} s left`;
  const minutes = Math.ceil(whole / 60);
  if (minutes < 60) return `${minutes} min left`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min left`;
}

/** Whether there is a terminal to ask on. */
export function canAsk(): boolean {
  return process.stdin.isTTY && process.stderr.isTTY;
}

/** Asks on standard error, since results go to standard output. Any answer but yes is a no, also end of input and Ctrl-C. */
export async function confirm(
  question: string,
  input: NodeJS.ReadableStream = process.stdin,
  output: NodeJS.WritableStream = process.stderr,
): Promise<boolean> {
  const asking = new AbortController();
  const terminal = createInterface({ input, output });
  terminal.once('close', () => {
    asking.abort();
  });
  try {
    const answer = await terminal.question(`${question} [y/N] `, { signal: asking.signal });
    return /^y(es)?$/i.test(answer.trim());
  } catch {
    output.write('\n');
    return false;
  } finally {
    terminal.close();
  }
}
