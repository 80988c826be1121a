/** SIGINT (Ctrl-C) and SIGTERM of this process. */
export interface Interrupts {
  /** Aborts with the first one. A second one ends the process at once. */
  readonly signal: AbortSignal;
  /** Watches no more. After an interrupt the process ends by it, as a shell expects of Ctrl-C. */
  stop(): void;
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;

export function watchInterrupts(): Interrupts {
  const interrupted = new AbortController();
  let came: NodeJS.Signals | undefined;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (came === undefined) {
      came = signal;
      interrupted.abort();
    } else {
      forget();
      process.kill(process.pid, signal);
    }
  };
  const forget = (): void => {
    for (const signal of SIGNALS) process.off(signal, onSignal);
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  return {
    signal: interrupted.signal,
    stop() {
      forget();
      const signal = came;
      // Once the error of the command is written.
      if (signal !== undefined) setImmediate(() => process.kill(process.pid, signal));
    },
  };
}
