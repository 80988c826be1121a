import { constants, setPriority } from 'node:os';
import type { ScriptedAnswer } from '../sandbox/answers.ts';
import type { JournalEntry } from '../sandbox/journal.ts';
import type { Answer, Rate } from '../sandbox/loopback/answers.ts';
import { DEFAULT_LATENCY, type Latency } from '../sandbox/loopback/timing.ts';
import { startSandbox, type Sandbox } from '../sandbox/sandbox.ts';
import type { Platform } from '../src/notification/notification.ts';
import { watchDelays, type Stall } from './delays.ts';

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
  | { readonly kind: 'entry'; readonly entry: SeenEntry }
  | ({ readonly kind: 'stall' } & Stall);

/** A request, and how late this process may have seen it: it arrived between `at - delayMs` and `at`. */
export interface SeenEntry extends JournalEntry {
  readonly delayMs?: number;
}

/** The loopback providers in a process of their own, so that nothing else delays the time stamp of an arrival. */
async function main({ seed = 1, latency = DEFAULT_LATENCY }: ProvidersOptions): Promise<void> {
  // A message that cannot be sent is no error: if the parent is gone, `disconnect` ends this process.
  const send = (message: ProvidersMessage): void => void process.send?.(message, undefined, {}, () => undefined);
  favourStamps();
  const watch = watchDelays((stall) => {
    send({ kind: 'stall', ...stall });
  });
  const sandbox = await startSandbox({ seed, latency, keep: 0 });
  sandbox.journal.on((entry) => {
    send({ kind: 'entry', entry: { ...entry, delayMs: watch.delayMs(entry.at) } });
  });
  let orders = Promise.resolve();
  process.on('message', (order: ProvidersOrder) => {
    orders = orders.then(async () => {
      await obey(sandbox, order);
      send({ kind: 'done' });
    });
  });
  process.once('disconnect', () => {
    void sandbox.close().then(() => process.exit(0));
  });
  if (!process.connected) process.exit(0); // the parent has gone already
  send({ kind: 'ready', env: sandbox.env() });
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

/** Gives this process a high priority, so that it does not wait for a processor behind the workers before it stamps an arrival. */
function favourStamps(): void {
  try {
    setPriority(constants.priority.PRIORITY_HIGH);
  } catch {
    // Only root may do this. Without it, arrivals are seen later, and their `delayMs` is longer.
  }
}

await main(JSON.parse(process.argv[2] ?? '{}') as ProvidersOptions);
