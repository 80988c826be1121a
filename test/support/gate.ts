import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/** A TCP relay to a local port that can stop passing anything on, like a network that swallows packets. */
export interface Gate {
  /** `https://127.0.0.1:<port>` */
  readonly url: string;
  /** Connections are still taken, but nothing passes either way. */
  pause(): void;
  /** The same for the connections that stand; new ones get through. */
  pauseStanding(): void;
  /** The same for connections to come; those that stand are left alone. */
  pauseNew(): void;
  /** What was stopped passes, and all that follows. */
  release(): void;
}

export async function openGate(targetUrl: string): Promise<Gate> {
  const pairs = new Map<Socket, Socket>();
  let isPaused = false;
  const server = createServer((client) => {
    const target = connect(Number(new URL(targetUrl).port), '127.0.0.1');
    pairs.set(client, target);
    for (const [from, to] of [
      [client, target],
      [target, client],
    ] as const) {
      from.on('error', () => undefined);
      from.on('close', () => {
        to.destroy();
        pairs.delete(client);
      });
      from.on('data', (chunk) => to.write(chunk));
      if (isPaused) from.pause();
    }
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const each = (act: (socket: Socket) => void): void => {
    for (const pair of pairs) pair.forEach(act);
  };
  onTestFinished(async () => {
    each((socket) => socket.destroy());
    await new Promise((resolve) => server.close(resolve));
  });
  return {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    pause() {
      isPaused = true;
      each((socket) => socket.pause());
    },
    pauseStanding() {
      each((socket) => socket.pause());
    },
    pauseNew() {
      isPaused = true;
    },
    release() {
      isPaused = false;
      each((socket) => socket.resume());
    },
  };
}
