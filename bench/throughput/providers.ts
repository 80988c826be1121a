import { fork } from 'node:child_process';
import { subscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { fileURLToPath } from 'node:url';
import type { Latency } from '../../sandbox/loopback/timing.ts';
import { startSandbox } from '../../sandbox/sandbox.ts';
import { spreadOf } from '../pacing/figures.ts';

/**
 * Loopback providers in a process of their own, which only count: sending every journal entry to this process would use processor
 * time that the worker needs. They end with `close`, and with this process.
 */
export interface Counters {
  /** Points workers at them. */
  readonly env: Readonly<Record<string, string>>;
  /** Counts from 0 again. */
  reset(): Promise<void>;
  report(): Promise<Count>;
  close(): Promise<void>;
}

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
  /** Bytes on the network to the providers, and back, with TLS. */
  readonly inBytes: number;
  readonly outBytes: number;
  /** How late alerts arrived whose `data.due` says when they were due, in milliseconds. NaN if there were none. */
  readonly late: { readonly count: number; readonly p50: number; readonly p99: number; readonly worst: number };
}

/** Both are answered with the count. */
type Order = 'reset' | 'report';

/** Rejects if the process ends instead of answering. */
export async function startCounters(latency: Latency): Promise<Counters> {
  const child = fork(fileURLToPath(import.meta.url), [JSON.stringify(latency)], {
    execArgv: [],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const exited = once(child, 'exit');
  /** The answer that comes next; the orders are answered in turn. */
  const next = async (): Promise<unknown> => {
    const ended = exited.then(([code]) => {
      throw new Error(`the loopback providers ended (exit code ${String(code)})`);
    });
    const [message] = (await Promise.race([once(child, 'message'), ended])) as [unknown];
    return message;
  };
  const ask = async (order: Order): Promise<Count> => {
    const answer = next();
    child.send(order, () => undefined); // if the child has ended, `next` rejects
    return (await answer) as Count;
  };
  const env = (await next()) as Record<string, string>;
  return {
    env,
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

/** The child process: sends the variables that point workers at it, and then a count for each order. */
async function main(latency: Latency): Promise<void> {
  const send = (message: object): void => void process.send?.(message, undefined, {}, () => undefined);
  const sandbox = await startSandbox({ keep: 0, latency });
  const carried = countBytes();
  let counter = createCounter();
  sandbox.journal.on(({ accepted, at, data, reason = '' }) => {
    if (accepted) counter.accept(at, data['due']);
    else counter.refuse(reason);
  });
  process.on('message', (order: Order) => {
    if (order === 'reset') counter = createCounter();
    send({ ...counter.count(), ...carried() });
  });
  process.once('disconnect', () => {
    void sandbox.close().then(() => process.exit(0));
  });
  send(sandbox.env());
}

function createCounter() {
  const refused: Record<string, number> = {};
  const late: number[] = [];
  let accepted = 0;
  let [firstAtMs, lastAtMs] = [NaN, NaN];
  let cpuAtFirst = process.cpuUsage();
  return {
    accept(at: number, due?: string): void {
      accepted += 1;
      if (due !== undefined) late.push(at - Number(due));
      lastAtMs = at;
      if (accepted > 1) return;
      firstAtMs = at;
      cpuAtFirst = process.cpuUsage();
    },
    refuse(reason: string): void {
      refused[reason] = (refused[reason] ?? 0) + 1;
    },
    count(): Omit<Count, 'inBytes' | 'outBytes'> {
      const { user, system } = process.cpuUsage(cpuAtFirst);
      return {
        accepted,
        refused,
        firstAtMs,
        lastAtMs,
        cpuMs: (user + system) / 1_000,
        late: { count: late.length, ...spreadOf(late) },
      };
    },
  };
}

/** Bytes of all sockets that servers of this process accept from now on. */
function countBytes(): () => Pick<Count, 'inBytes' | 'outBytes'> {
  const sockets: Socket[] = [];
  subscribe('net.server.socket', (message) => sockets.push((message as { readonly socket: Socket }).socket));
  return () => ({
    inBytes: sockets.reduce((sum, { bytesRead }) => sum + bytesRead, 0),
    outBytes: sockets.reduce((sum, { bytesWritten }) => sum + bytesWritten, 0),
  });
}

if (import.meta.main) await main(JSON.parse(process.argv[2] ?? '') as Latency);
