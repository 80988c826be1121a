import { fork } from 'node:child_process';
import { once } from 'node:events';
import { extname } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Answer } from '../sandbox/loopback/answers.ts';
import type { Platform } from '../src/notification/notification.ts';
import type { Stall } from './delays.ts';
import type { ProvidersMessage, ProvidersOptions, ProvidersOrder, SeenEntry } from './providers-child.ts';

/** The loopback providers in a child process, and a copy of their journal. It ends with this process. */
export interface ProvidersProcess {
  readonly pid: number;
  /** Points workers at them. */
  readonly env: Readonly<Record<string, string>>;
  /** Every request so far, the refused ones too. */
  readonly entries: readonly SeenEntry[];
  /** Each time that the machine stood still: measurements from that time say little. */
  readonly stalls: readonly Stall[];
  /** Resolves when it has been carried out. */
  order(order: ProvidersOrder): Promise<void>;
  /** Sets the answers to the next requests with this token; with an empty list they are accepted again. */
  script(platform: Platform, token: string, answers: readonly Answer[]): Promise<void>;
  close(): Promise<void>;
}

const CHILD = fileURLToPath(new URL(`providers-child${extname(import.meta.url)}`, import.meta.url));

/** The longest stall, in whole milliseconds; 0 if there was none. */
export function longestMs(stalls: readonly Stall[]): number {
  return Math.round(Math.max(0, ...stalls.map(({ ms }) => ms)));
}

/** Starts them. They answer as fast as the real ones unless `latency` says otherwise. */
export async function startProviders(options: ProvidersOptions = {}): Promise<ProvidersProcess> {
  const child = fork(CHILD, [JSON.stringify(options)], {
    execArgv: [],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const entries: SeenEntry[] = [];
  const stalls: Stall[] = [];
  const exited = once(child, 'exit');
  const waiting: { kind: ProvidersMessage['kind']; resolve: (message: ProvidersMessage) => void }[] = [];
  child.on('message', (message: ProvidersMessage) => {
    if (message.kind === 'entry') entries.push(message.entry);
    if (message.kind === 'stall') stalls.push({ at: message.at, ms: message.ms });
    const index = waiting.findIndex(({ kind }) => kind === message.kind);
    if (index >= 0) waiting.splice(index, 1)[0]?.resolve(message);
  });
  const next = (kind: ProvidersMessage['kind']): Promise<ProvidersMessage> =>
    Promise.race([
      new Promise<ProvidersMessage>((resolve) => waiting.push({ kind, resolve })),
      exited.then(([code]) => {
        throw new Error(`the loopback providers ended (exit code ${String(code)})`);
      }),
    ]);

  const ready = await next('ready');
  const order = async (asked: ProvidersOrder): Promise<void> => {
    const done = next('done');
    child.send(asked, () => undefined); // if the child has ended, `next` rejects
    await done;
  };
  return {
    pid: child.pid ?? 0,
    env: ready.kind === 'ready' ? ready.env : {},
    entries,
    stalls,
    order,
    script: (platform, token, answers) => order({ do: 'script', platform, token, answers }),
    async close() {
      if (child.connected) child.disconnect();
      await exited;
    },
  };
}
