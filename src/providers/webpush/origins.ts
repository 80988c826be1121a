import type { Provider } from '../provider.ts';

export interface OriginsOptions {
  readonly create: (origin: string) => Provider;
  /** The most that are open at once. */
  readonly max: number;
  /** One that nothing was sent to for so long is closed. Milliseconds. */
  readonly idleMs: number;
}

/** What is open for one origin. */
interface Open {
  readonly provider: Provider;
  readonly idle: NodeJS.Timeout;
  sending: number;
}

/** A provider for each push service, made when the first push needs it. */
export interface Origins {
  /** Undefined if too many are open and all of them are sending. */
  get(origin: string): Provider | undefined;
  /** As `get`; the provider stays open until `work` has ended. */
  use<T>(origin: string, work: (provider: Provider) => Promise<T>): Promise<T> | undefined;
  /** Those that are open. */
  all(): readonly (readonly [origin: string, provider: Provider])[];
  abort(): void;
  close(): Promise<void>;
}

export function createOrigins({ create, max, idleMs }: OriginsOptions): Origins {
  /** In the order of their last use: the first one waits for the longest time. */
  const open = new Map<string, Open>();
  const closing = new Set<Promise<void>>();

  function end(origin: string, { provider, idle }: Open): void {
    clearTimeout(idle);
    open.delete(origin);
    const closed = provider.close().finally(() => closing.delete(closed));
    closing.add(closed);
  }

  function endIfIdle(origin: string): void {
    const found = open.get(origin);
    if (found?.sending === 0) end(origin, found);
    else found?.idle.refresh();
  }

  function make(origin: string): Open | undefined {
    if (open.size >= max) {
      const [oldest] = [...open].filter(([, { sending }]) => sending === 0);
      if (oldest === undefined) return undefined;
      end(...oldest);
    }
    return { provider: create(origin), sending: 0, idle: setTimeout(() => endIfIdle(origin), idleMs).unref() };
  }

  function find(origin: string): Open | undefined {
    const found = open.get(origin) ?? make(origin);
    if (found === undefined) return undefined;
    found.idle.refresh();
    open.delete(origin);
    open.set(origin, found);
    return found;
  }

  return {
    get: (origin) => find(origin)?.provider,
    use(origin, work) {
      const found = find(origin);
      if (found === undefined) return undefined;
      found.sending += 1;
      return work(found.provider).finally(() => (found.sending -= 1));
    },
    all: () => [...open].map(([origin, { provider }]) => [origin, provider] as const),
    abort() {
      for (const { provider } of open.values()) provider.abort();
    },
    async close() {
      for (const [origin, each] of open) end(origin, each);
      await Promise.all(closing);
    },
  };
}
