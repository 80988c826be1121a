import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { Latency } from '../../sandbox/loopback/timing.ts';
import type { Count, CounterMessage, CounterOrder } from './providers-child.ts';

/** Loopback providers that only count. They end with `close`, and with this process. */
export interface Counters {
  /** Points workers at them. */
  readonly env: Readonly<Record<string, string>>;
  /** Counts from 0 again. */
  reset(): Promise<void>;
  report(): Promise<Count>;
  close(): Promise<void>;
}

const CHILD = fileURLToPath(new URL('./providers-child.ts', import.meta.url));

/** Rejects if the process ends instead of answering. */
export async function startCounters(latency: Latency): Promise<Counters> {
  const args = [JSON.stringify(latency)];
  const child = fork(CHILD, args, { execArgv: [], stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
  const exited = once(child, 'exit');
  /** The answer that comes next; the orders are answered in turn. */
  const next = async (): Promise<CounterMessage> => {
    const ended = exited.then(([code]) => {
      throw new Error(`the loopback providers ended (exit code ${String(code)})`);
    });
    const [message] = (await Promise.race([once(child, 'message'), ended])) as [CounterMessage];
    return message;
  };
  const ask = async (order: CounterOrder): Promise<Count> => {
    const answer = next();
    child.send(order, () => undefined); // if the child has ended, `next` rejects
    const message = await answer;
    if (message.kind !== 'count') throw new Error('the loopback providers answered something else than a count');
    return message.count;
  };
  const ready = await next();
  return {
    env: ready.kind === 'ready' ? ready.env : {},
    async reset() {
      await ask('reset');
    },
    report: () => ask('report'),
    async close() {
      if (child.connected) child.disconnect();
      await exited;
    },
  };
}
