import { constants, setPriority } from 'node:os';
import type { Answer } from '../../src/sandbox/answers.ts';
import type { JournalEntry } from '../../src/sandbox/journal.ts';
import { startSandbox } from '../../src/sandbox/sandbox.ts';

/** What the parent asks for: answers to the next requests with this token. */
export interface ScriptMessage {
  readonly platform: 'apns' | 'fcm';
  readonly token: string;
  readonly answers: readonly Answer[];
}

/** What it is told: the environment that points workers here, then each request. */
export type ProvidersMessage =
  | { readonly kind: 'ready'; readonly env: Record<string, string> }
  | { readonly kind: 'scripted' }
  | { readonly kind: 'entry'; readonly entry: JournalEntry }
  | { readonly kind: 'stall'; readonly ms: number };

/** The loopback providers in a process of their own, so that nothing else delays the stamp on an arrival. */
async function main(): Promise<void> {
  const tell = (message: ProvidersMessage): void => void process.send?.(message);
  favourStamps();
  const sandbox = await startSandbox();
  sandbox.journal.on((entry) => {
    tell({ kind: 'entry', entry });
  });
  process.on('message', ({ platform, token, answers }: ScriptMessage) => {
    sandbox[platform].script(token, answers);
    tell({ kind: 'scripted' });
  });
  process.once('disconnect', () => {
    void sandbox.close().then(() => process.exit(0));
  });
  tell({ kind: 'ready', env: sandbox.env() });
  watchForStalls((ms) => {
    tell({ kind: 'stall', ms });
  });
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

await main();
