import { constants, setPriority } from 'node:os';
import type { Platform } from '../../src/domain/notification.ts';
import type { Answer, Rate } from '../../src/sandbox/loopback/answers.ts';
import { DEFAULT_LATENCY, type Latency } from '../../src/sandbox/loopback/timing.ts';
import type { JournalEntry } from '../../src/sandbox/journal.ts';
import { startSandbox, type Sandbox } from '../../src/sandbox/sandbox.ts';

/** What the parent asks for; carried out in order, and each answered with `done`. */
export type ProvidersOrder =
  /** Answers to the next requests with this token. */
  | { readonly do: 'script'; readonly platform: Platform; readonly token: string; readonly answers: readonly Answer[] }
  | { readonly do: 'rates'; readonly platform: Platform; readonly rates: readonly Rate[] }
  /** Every n-th request makes its HTTP/2 connection go away, at APNs where no platform is told; 0 ends it. */
  | { readonly do: 'go-away'; readonly platform?: Platform; readonly every: number }
  /** `close-idle` closes the connections that carry no request now. */
  | { readonly do: 'drop' | 'close-idle' | 'revoke' | 'restore' | 'down' | 'up'; readonly platform: Platform }
  /** Nothing; what was told before it has been told. */
  | { readonly do: 'flush' };

/** What the child is started with, as JSON in its first argument. */
export interface ProvidersOptions {
  /** Decides what the rates, the latency and the jitter of idle connections draw; 1 where left out. */
  readonly seed?: number;
  /** How long answers take; as the real providers do where left out. */
  readonly latency?: Latency;
}

/** What it is told: the environment that points workers here, then each request. */
export type ProvidersMessage =
  | { readonly kind: 'ready'; readonly env: Record<string, string> }
  | { readonly kind: 'done' }
  | { readonly kind: 'entry'; readonly entry: JournalEntry }
  | ({ readonly kind: 'stall' } & Stall);

/** The machine stood still for so long, and went on at this instant (epoch milliseconds, as in the journal). */
export interface Stall {
  readonly at: number;
  readonly ms: number;
}

/** The loopback providers in a process of their own, so that nothing else delays the stamp on an arrival. */
async function main({ seed = 1, latency = DEFAULT_LATENCY }: ProvidersOptions): Promise<void> {
  // Where the parent is gone, `disconnect` tells; what could not be sent is no error.
  const tell = (message: ProvidersMessage): void => void process.send?.(message, undefined, {}, () => undefined);
  favourStamps();
  const sandbox = await startSandbox({ seed, latency, keep: 0 });
  sandbox.journal.on((entry) => {
    tell({ kind: 'entry', entry });
  });
  let orders = Promise.resolve();
  process.on('message', (order: ProvidersOrder) => {
    orders = orders.then(async () => {
      await obey(sandbox, order);
      tell({ kind: 'done' });
    });
  });
  process.once('disconnect', () => {
    void sandbox.close().then(() => process.exit(0));
  });
  tell({ kind: 'ready', env: sandbox.env() });
  watchForStalls((ms) => {
    tell({ kind: 'stall', at: performance.timeOrigin + performance.now(), ms });
  });
}

async function obey(sandbox: Sandbox, order: ProvidersOrder): Promise<void> {
  switch (order.do) {
    case 'script':
      sandbox[order.platform].script(order.token, order.answers);
      return;
    case 'rates':
      sandbox[order.platform].setRates(order.rates);
      return;
    case 'go-away':
      sandbox[order.platform ?? 'apns'].goAwayEvery(order.every === 0 ? undefined : order.every);
      return;
    case 'drop':
      sandbox[order.platform].dropConnections();
      return;
    case 'close-idle':
      sandbox[order.platform].closeIdle();
      return;
    case 'revoke':
      sandbox[order.platform].revokeKey();
      return;
    case 'restore':
      sandbox[order.platform].restoreKey();
      return;
    case 'down':
      await sandbox[order.platform].down();
      return;
    case 'up':
      await sandbox[order.platform].up();
      return;
    case 'flush':
  }
}

const TICK_MS = 5;
/** More than this between two ticks of an idle process that goes before all others: the machine itself stood still. */
const STALL_MS = 20;

/** While the machine stands still nothing is stamped when it arrived, and what was sent arrives late. */
function watchForStalls(onStall: (ms: number) => void): void {
  let last = performance.now();
  setInterval(() => {
    const ms = performance.now() - last - TICK_MS;
    last += ms + TICK_MS;
    if (ms > STALL_MS) onStall(ms);
  }, TICK_MS).unref();
}

/** An arrival is stamped when this process gets a processor: it should not have to queue for one behind the workers. */
function favourStamps(): void {
  try {
    setPriority(constants.priority.PRIORITY_HIGH);
  } catch {
    // Only for the privileged; the tolerance of the judge has room for the rest.
  }
}

await main(JSON.parse(process.argv[2] ?? '{}') as ProvidersOptions);
