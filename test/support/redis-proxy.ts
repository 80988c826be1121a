import { createServer, connect, type AddressInfo, type Server, type Socket } from 'node:net';
import { once } from 'node:events';
import { onTestFinished } from 'vitest';
import { inOrder } from '../../bench/pacing/proxy.ts';

interface Delay {
  readonly leastMs: number;
  readonly mostMs: number;
}

/** A relay between clients and a Redis, which can be as bad as any network. */
export interface RedisProxy {
  /** `redis://127.0.0.1:41877` */
  readonly url: string;
  readonly port: number;
  /** Connections that are up now. */
  readonly open: number;
  /** How many were ever accepted. */
  readonly accepted: number;
  /** Each piece of data takes this long, in each direction; its order stays. `undefined`: no delay. */
  delay(by: Delay | undefined): void;
  /** The connections that are up pass nothing any more, in either direction, and stay up. New ones pass all. */
  silence(): void;
  /** The connections that wait for a job pass nothing any more, and stay up. Nor do new ones, until `pass`, if `newOnes`. */
  silenceBlocking(newOnes: boolean): void;
  /** Connections that come from now on pass all. */
  pass(): void;
  /** Ends every connection with a RST. */
  reset(): void;
  /** Refuses new connections, and resets those that are up. */
  refuse(): Promise<void>;
  /** Takes connections again. */
  admit(): Promise<void>;
  /** Connections that come from now on lead to the Redis on this port. */
  leadTo(redisPort: number): void;
}

/** A relay to the Redis on this port of the loopback; it ends with the test. */
export async function openRedisProxy(firstPort: number, random: () => number = Math.random): Promise<RedisProxy> {
  const pairs = new Set<Pair>();
  let redisPort = firstPort;
  let delay: Delay | undefined;
  let accepted = 0;
  let isSilentToNew = false;
  const delayMs = (): number => (delay ? delay.leastMs + random() * (delay.mostMs - delay.leastMs) : 0);
  const server = createServer((client) => {
    accepted += 1;
    const pair = relay(client, connect({ port: redisPort, host: '127.0.0.1' }), delayMs);
    if (isSilentToNew) pair.silence();
    pairs.add(pair);
    client.once('close', () => pairs.delete(pair));
  });
  await listen(server, 0);
  const { port } = server.address() as AddressInfo;
  const reset = (): void => {
    for (const pair of pairs) pair.reset();
  };
  const refuse = async (): Promise<void> => {
    const closed = server.listening ? once(server.close(), 'close') : undefined;
    reset();
    await closed;
  };
  onTestFinished(refuse);
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    get open() {
      return pairs.size;
    },
    get accepted() {
      return accepted;
    },
    delay: (by) => (delay = by),
    silence: () => {
      for (const pair of pairs) pair.silence();
    },
    silenceBlocking: (newOnes) => {
      isSilentToNew = newOnes;
      for (const pair of pairs) if (pair.blocks()) pair.silence();
    },
    pass: () => (isSilentToNew = false),
    reset,
    refuse,
    admit: () => listen(server, port),
    leadTo: (to) => (redisPort = to),
  };
}

interface Pair {
  /** Whether it has sent a command that waits for a job. */
  blocks(): boolean;
  silence(): void;
  reset(): void;
}

function relay(client: Socket, redis: Socket, delayMs: () => number): Pair {
  let isSilent = false;
  let blocks = false;
  client.on('data', (data) => (blocks ||= data.includes('\r\nbzpopmin\r\n')));
  const end = (): void => {
    for (const side of [client, redis]) if (!side.destroyed) side.resetAndDestroy();
  };
  const pass = (from: Socket, to: Socket): void => {
    const write = inOrder((data) => {
      if (!isSilent && !to.destroyed) to.write(data);
    });
    from.setNoDelay(true);
    from.on('error', () => undefined); // `close` follows
    from.on('data', (data) => {
      write(data, delayMs());
    });
    from.once('close', () => {
      // A silent relay does not show that Redis's side has gone; the client's end frees both.
      if (!isSilent || from === client) end();
    });
  };
  pass(client, redis);
  pass(redis, client);
  return { blocks: () => blocks, silence: () => void (isSilent = true), reset: end };
}

async function listen(server: Server, port: number): Promise<void> {
  if (server.listening) return;
  await once(server.listen(port, '127.0.0.1'), 'listening');
}
