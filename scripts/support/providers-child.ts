import { constants, setPriority } from 'node:os';
import type { Platform } from '../../src/domain/notification.ts';
import type { ScriptedAnswer } from '../../src/sandbox/answers/scripted.ts';
import type { Answer, Rate } from '../../src/sandbox/loopback/answers.ts';
import { DEFAULT_LATENCY, type Latency } from '../../src/sandbox/loopback/timing.ts';
import type { JournalEntry } from '../../src/sandbox/journal.ts';
import { startSandbox, type Sandbox } from '../../src/sandbox/sandbox.ts';

/** The parent's orders. They are carried out in turn, and each is answered with `done`. */
export type ProvidersOrder =
  /** Answers to the next requests with this token. */
  | { readonly do: 'script'; readonly platform: Platform; readonly token: string; readonly answers: readonly Answer[] }
  /** The script of both providers, in place of an earlier one. */
  | { readonly do: 'answers'; readonly answers: readonly ScriptedAnswer[] }
  | { readonly do: 'rates'; readonly platform: Platform; readonly rates: readonly Rate[] }
  /** Every n-th request makes its HTTP/2 connection send a GOAWAY; 0 ends this. Without a platform: APNs. */
  | { readonly do: 'go-away'; readonly platform?: Platform; readonly every: number }
  /** `close-idle` closes the connections that carry no request now. */
  | { readonly do: 'drop' | 'close-idle' | 'revoke' | 'restore' | 'down' | 'up'; readonly platform: Platform }
  /** Does nothing: when it is answered, all earlier messages have arrived. */
  | { readonly do: 'flush' };

/** The child's options, as JSON in its first argument. */
export interface ProvidersOptions {
  /** Decides the random numbers for rates, latency and idle connections. Default: 1. */
  readonly seed?: number;
  /** How long answers take. Default: as the real providers. */
  readonly latency?: Latency;
}

/** The child's messages: the environment that points workers here, then each request. */
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

/** The loopback providers in a process of their own, so that nothing else delays the time stamp of an arrival. */
async function main({ seed = 1, latency = DEFAULT_LATENCY }: ProvidersOptions): Promise<void> {
  // A message that cannot be sent is no error: if the parent is gone, `disconnect` ends this process.
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
    case 'answers':
      sandbox.setAnswers(order.answers);
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
/** If two ticks of an idle process with high priority are this much too far apart, the machine itself stood still. */
const STALL_MS = 20;

/** Reports when the machine stood still, because arrivals at that time are stamped late. */
function watchForStalls(onStall: (ms: number) => void): void {
  let last = performance.now();
  setInterval(() => {
    const ms = performance.now() - last - TICK_MS;
    last += ms + TICK_MS;
    if (ms > STALL_MS) onStall(ms);
  }, TICK_MS).unref();
}

/** Gives this process a high priority: an arrival is only stamped when it gets a processor, and it should not wait behind the workers. */
function favourStamps(): void {
  try {
    setPriority(constants.priority.PRIORITY_HIGH);
  } catch {
    // Only root may do this. Without it, judge.ts's tolerance covers the delay.
  }
}

await main(JSON.parse(process.argv[2] ?? '{}') as ProvidersOptions);
