import { MultiBar, Presets } from 'cli-progress';

/** How far long work has come, on standard error: a bar on a terminal, nothing elsewhere. */
export interface Progress {
  /** Moves to `done`, of a new total where more has come up. */
  update(done: number, total?: number): void;
  /** One line, above the bar. */
  say(line: string): void;
  stop(): void;
}

/** `createProgress('replayed', 1200)` → `replayed ████░░░░ 50% | 600/1200 | 3s left` */
export function createProgress(label: string, total: number, stream: NodeJS.WriteStream = process.stderr): Progress {
  if (!stream.isTTY) {
    return {
      update: () => undefined,
      say: (line) => void stream.write(`${line}\n`),
      stop: () => undefined,
    };
  }
  const format = `${label} {bar} {percentage}% | {value}/{total} | {eta_formatted} left`;
  const bars = new MultiBar({ stream, format, clearOnComplete: true, hideCursor: true }, Presets.shades_classic);
  const bar = bars.create(total, 0);
  // Ctrl-C ends the program as it would without a bar, but not with the terminal's cursor hidden.
  const restore = (): void => {
    bars.stop();
    if (process.listenerCount('SIGINT') === 0) process.kill(process.pid, 'SIGINT');
  };
  process.once('SIGINT', restore);
  return {
    update: (done, newTotal) => {
      if (newTotal !== undefined) bar.setTotal(newTotal);
      bar.update(done);
    },
    say: (line) => {
      bars.log(`${line}\n`);
    },
    stop: () => {
      process.off('SIGINT', restore);
      bars.stop();
    },
  };
}
