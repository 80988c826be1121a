import { once } from 'node:events';
import { connect } from 'node:net';
import { onTestFinished } from 'vitest';

/** A request as any program may write it, over a connection of its own, which ends with the test. */
export interface RawRequest {
  /** Sends so much of the body. */
  write(text: string | Uint8Array): void;
  /** The answer, also if the body is not sent whole. Rejects if the connection ends without one. */
  answer(): Promise<RawAnswer>;
  /** Resolves when the connection has ended. */
  readonly ended: Promise<void>;
  /** Ends the connection. */
  leave(): void;
}

export interface RawAnswer {
  readonly status: number;
  /** The head, as it came. */
  readonly head: string;
  readonly text: string;
}

/**
 * Sends the head of a request. Resolves when the server has taken it, and so has begun to answer, if one of `headers` is
 * `expect: 100-continue`; else at once.
 */
export async function sendHead(
  url: string,
  request: string,
  headers: Readonly<Record<string, string | number>> = {},
): Promise<RawRequest> {
  const { host, hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname).on('error', () => undefined);
  let received = '';
  const ended = new Promise<void>((resolve) => {
    socket.once('close', () => {
      resolve();
    });
  });
  socket.setEncoding('latin1').on('data', (text: string) => {
    received += text;
    socket.emit('received');
  });
  onTestFinished(() => void socket.destroy());
  await once(socket, 'connect');
  const lines = Object.entries({ host, ...headers }).map(([name, value]) => `${name}: ${value}`);
  socket.write(`${[`${request} HTTP/1.1`, ...lines].join('\r\n')}\r\n\r\n`);
  const isExpected = headers['expect'] !== undefined;
  if (isExpected) await once(socket, 'received');
  return {
    ended,
    write: (text) => void socket.write(text),
    leave: () => void socket.destroy(),
    async answer() {
      for (;;) {
        const found = answerIn(received.replace(/^HTTP\/1.1 100 .*\r\n\r\n/, ''), socket.closed);
        if (found !== undefined) return found;
        if (socket.closed) throw new Error(`the connection ended without an answer: ${JSON.stringify(received)}`);
        await Promise.race([once(socket, 'received'), ended]);
      }
    },
  };
}

/** The answer, if it has come whole. */
function answerIn(received: string, isEnd: boolean): RawAnswer | undefined {
  const [, head = '', body = ''] = /^([^]*?)\r\n\r\n([^]*)$/.exec(received) ?? [];
  const length = Number(/^content-length: (\d+)/im.exec(head)?.[1] ?? Infinity);
  const isWhole = body.length >= length || body.endsWith('0\r\n\r\n') || isEnd;
  if (head === '' || !isWhole) return undefined;
  return { head, status: Number(head.split(' ')[1]), text: Buffer.from(body, 'latin1').toString() };
}
