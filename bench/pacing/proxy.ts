import { fork } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { fileURLToPath } from 'node:url';

/** A relay before a Redis, in a process of its own: it must not wait for the work of this one. It ends with this process. */
export interface Proxy {
  /** `redis://127.0.0.1:41877` */
  readonly url: string;
  close(): Promise<void>;
}

interface Relayed {
  readonly redisPort: number;
  /** Each piece of data is delayed by this much, in each direction. */
  readonly eachWayMs: number;
}

const OWN_FILE = fileURLToPath(import.meta.url);

/** Starts a relay to the Redis at this URL. A command and its answer take `2 * eachWayMs` more than without it. */
export async function startProxy(redisUrl: string, eachWayMs: number): Promise<Proxy> {
  const relayed: Relayed = { redisPort: Number(new URL(redisUrl).port), eachWayMs };
  const child = fork(OWN_FILE, [JSON.stringify(relayed)], {
    execArgv: [],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const exited = once(child, 'exit');
  const ended = exited.then(([code]) => {
    throw new Error(`the relay ended before it listened (exit code ${String(code)})`);
  });
  const [port] = (await Promise.race([once(child, 'message'), ended])) as [number];
  return {
    url: `redis://127.0.0.1:${port}`,
    async close() {
      if (child.connected) child.disconnect();
      await exited;
    },
  };
}

/** The child process: it listens on a free port, and sends its number to its parent. */
async function main({ redisPort, eachWayMs }: Relayed): Promise<void> {
  const server = createServer((client) => {
    const redis = connect({ port: redisPort, host: '127.0.0.1' });
    pass(client, redis, eachWayMs);
    pass(redis, client, eachWayMs);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  process.once('disconnect', () => process.exit(0));
  process.send?.((server.address() as AddressInfo).port);
}

/** Hands on what one side sends, late and in order. If one side ends, the other one ends too. */
function pass(from: Socket, to: Socket, delayMs: number): void {
  const write = inOrder((data) => {
    if (!to.destroyed) to.write(data);
  });
  from.setNoDelay(true);
  from.on('data', (data) => {
    write(data, delayMs);
  });
  from.on('error', () => undefined); // `close` follows
  from.once('close', () => to.destroy());
}

/** Writes each piece after its delay, and never before the one that came earlier: timers alone keep no order. */
export function inOrder(write: (data: Buffer) => void): (data: Buffer, ms: number) => void {
  const waiting: { readonly data: Buffer; readonly dueAt: number }[] = [];
  const flush = (): void => {
    for (let next = waiting[0]; next !== undefined; next = waiting[0]) {
      const ms = next.dueAt - performance.now();
      if (ms > 0) {
        setTimeout(flush, ms);
        return;
      }
      waiting.shift();
      write(next.data);
    }
  };
  return (data, ms) => {
    waiting.push({ data, dueAt: performance.now() + ms });
    if (waiting.length === 1) flush();
  };
}

if (import.meta.main) await main(JSON.parse(process.argv[2] ?? '') as Relayed);
