import type { Latency } from '../../sandbox/loopback/timing.ts';
import { startSandbox } from '../../sandbox/sandbox.ts';

/** `reset` starts counting from 0; both orders are answered with the count. */
export type CounterOrder = 'reset' | 'report';

/** What arrived since the last `reset`. */
export interface Count {
  readonly accepted: number;
  /** Refused requests by reason. */
  readonly refused: Readonly<Record<string, number>>;
  /** When the first and the last accepted alert arrived: epoch milliseconds; NaN before there is one. */
  readonly firstAtMs: number;
  readonly lastAtMs: number;
  /** Processor time that the providers' process took since the first accepted alert; milliseconds. */
  readonly cpuMs: number;
}

export type CounterMessage =
  { readonly kind: 'ready'; readonly env: Record<string, string> } | { readonly kind: 'count'; readonly count: Count };

/**
 * The loopback providers in a process of their own. They only count: sending every journal entry to the parent would use
 * processor time that the worker needs.
 */
async function main(latency: Latency): Promise<void> {
  const tell = (message: CounterMessage): void => void process.send?.(message, undefined, {}, () => undefined);
  const sandbox = await startSandbox({ keep: 0, latency });
  let counter = createCounter();
  sandbox.journal.on(({ accepted, at, reason = '' }) => {
    if (accepted) counter.accept(at);
    else counter.refuse(reason);
  });
  process.on('message', (order: CounterOrder) => {
    if (order === 'reset') counter = createCounter();
    tell({ kind: 'count', count: counter.count() });
  });
  process.once('disconnect', () => {
    void sandbox.close().then(() => process.exit(0));
  });
  tell({ kind: 'ready', env: sandbox.env() });
}

function createCounter() {
  const refused: Record<string, number> = {};
  let accepted = 0;
  let [firstAtMs, lastAtMs] = [NaN, NaN];
  let cpuAtFirst = process.cpuUsage();
  return {
    accept(at: number): void {
      accepted += 1;
      lastAtMs = at;
      if (accepted > 1) return;
      firstAtMs = at;
      cpuAtFirst = process.cpuUsage();
    },
    refuse(reason: string): void {
      refused[reason] = (refused[reason] ?? 0) + 1;
    },
    count(): Count {
      const { user, system } = process.cpuUsage(cpuAtFirst);
      return { accepted, refused, firstAtMs, lastAtMs, cpuMs: (user + system) / 1_000 };
    },
  };
}

await main(JSON.parse(process.argv[2] ?? '') as Latency);
