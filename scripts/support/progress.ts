import { columnsOf } from './terminal.ts';
import { barText, type Counted } from './progress-text.ts';

/** How far a long work is: one line on standard error, which is gone at the end. Nothing if that is not a terminal. */
export interface Progress {
  /** Moves the bar to `done`, and changes the total if one is given. */
  update(done: number, total?: number): void;
  /** One line, above the bar. */
  say(line: string): void;
  stop(): void;
}

export interface ProgressOptions {
  /** Shows sizes, such as 1.2 MB. */
  readonly unit?: 'bytes';
  readonly stream?: NodeJS.WriteStream;
}

/** Work that ends sooner shows no bar. */
const DRAW_EVERY_MS = 100;
/** The rate is that of this time, so that the time left is right also after the speed has changed. */
const RATE_OF_MS = 10_000;
/**
 * Erases from here to the end of the screen. The cursor always waits where the bar begins: if the window becomes narrower and the
 * terminal breaks the bar into two lines, both are erased.
 */
const ERASE = '\x1b[J';

interface Bar {
  draw(): void;
  erase(): void;
}
const shown = new Map<NodeJS.WriteStream, Bar>();

/** Writes one line, above the bar if there is one: what is written past this function may be mixed with the bar. */
export function say(line: string, stream: NodeJS.WriteStream = process.stderr): void {
  const bar = shown.get(stream);
  bar?.erase();
  stream.write(`${line}\n`);
  bar?.draw();
}

/** `createProgress('replayed', 1200)` → `replayed ████░░░░ 50% 600/1,200 150/s, 4 s left`. Without a total only counts and rate. */
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
  // The bar goes first, then the program ends as without a bar.
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

/** Answers how many a second were done lately; undefined until that can be known. */
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
