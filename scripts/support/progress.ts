import { MultiBar, Presets } from 'cli-progress';

/** A progress bar on standard error; nothing if that is not a terminal. */
export interface Progress {
  /** Moves the bar to `done`, and changes the total if one is given. */
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
  // On Ctrl-C show the terminal's cursor again, then end the program as without a bar.
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
