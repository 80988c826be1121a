import type { ClientRequest, IncomingMessage } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import { isIP } from 'node:net';
import type { TLSSocket } from 'node:tls';
import { MAX_BODY_BYTES, type SendRequest } from './exchange.ts';
import { connectFailure, createReach, unsent, type SendResult, type Unsent } from './result.ts';
import type { Sender, SenderOptions } from './sender.ts';
import { createSlots } from './slots.ts';

/** An idle connection is closed after this: shorter than what servers allow, so that a request rarely meets a closed one. */
const IDLE_MS = 4_000;

/** A sender for a server without HTTP/2: one request at a time on each connection, at most `maxConnections` at once. */
export function createHttp1Sender(options: SenderOptions): Sender {
  const { endpoint, secureContext, requestTimeoutMs = 10_000, connectTimeoutMs = 5_000, maxConnections = 16 } = options;
  const slots = createSlots(maxConnections);
  const reach = createReach(endpoint);
  const agent = new Agent({ keepAlive: true, maxSockets: maxConnections, timeout: IDLE_MS });
  const underWay = new Map<Promise<SendResult>, () => void>();
  let isClosed = false;

  function open({ headers }: SendRequest): ClientRequest {
    const { ':method': method, ':path': path, ...rest } = headers;
    const { host, port } = endpoint;
    return httpsRequest({
      agent,
      host,
      port,
      ...(isIP(host) === 0 && { servername: host }),
      method: String(method),
      path: String(path),
      headers: rest,
      // Nothing in the environment (NODE_TLS_REJECT_UNAUTHORIZED) may switch this off.
      rejectUnauthorized: true,
      minVersion: 'TLSv1.2',
      ...(secureContext && { secureContext }),
    });
  }

  function exchange(request: SendRequest, sendBy: number) {
    const { promise, resolve } = Promise.withResolvers<SendResult>();
    const sent = open(request);
    let isWritten = false;
    const end = (result: SendResult): void => {
      clearTimeout(timer);
      resolve(result);
      if (result.kind !== 'answered') sent.destroy(); // after an answer the connection is kept
    };
    const beganAt = performance.now();
    const unreached = (failure: Unsent): Unsent => {
      reach.failed(failure, beganAt);
      return failure;
    };
    const giveUpConnecting = (): void => {
      const error = new Error(`no connection within ${connectTimeoutMs} ms`);
      end(unreached(connectFailure(Object.assign(error, { code: 'ETIMEDOUT' }))));
    };
    // `setImmediate` lets an answer that already lies in the socket be read first, if this process was stalled.
    const giveUp = (): void => void setImmediate(() => end({ kind: 'unknown', code: 'timeout' }));
    let timer = setTimeout(giveUpConnecting, connectTimeoutMs);

    /** Only on a connection that stands: until then nothing has left, and the time for it may pass. */
    const write = (): void => {
      reach.succeeded();
      if (performance.now() > sendBy) {
        end(unsent('too-late'));
        return;
      }
      clearTimeout(timer);
      timer = setTimeout(giveUp, requestTimeoutMs);
      isWritten = true;
      sent.end(request.body);
    };
    sent.once('socket', (socket: TLSSocket) => {
      if (sent.reusedSocket) write();
      else socket.once('secureConnect', write);
    });
    sent.once('response', (response) => void read(response).then(end));
    sent.on('error', (error) =>
      end(isWritten ? { kind: 'unknown', code: 'reset', detail: error.message } : unreached(connectFailure(error))),
    );
    underWay.set(promise, () => end(isWritten ? { kind: 'unknown', code: 'aborted' } : unsent('cancelled')));
    return promise.finally(() => underWay.delete(promise));
  }

  return {
    reserve: () => slots.take(),
    async send(request, { permit, sendBy = Infinity } = {}) {
      const held = slots.owns(permit) ? permit : undefined;
      if (held === undefined) permit?.release();
      const slot = held?.use() ?? (await slots.take(sendBy));
      if (!('release' in slot)) return slot;
      try {
        if (isClosed) return unsent('closed');
        if (performance.now() > sendBy) return unsent('too-late');
        return await exchange(request, sendBy);
      } finally {
        slot.release();
      }
    },
    connect: () => Promise.resolve(),
    reach: () => (isClosed ? undefined : reach.now()),
    abort() {
      slots.giveUpWaiting(unsent('cancelled'));
      for (const give of underWay.values()) give();
    },
    async close() {
      isClosed = true;
      slots.end();
      await Promise.allSettled(underWay.keys());
      agent.destroy();
    },
  };
}

/** A body that is cut off counts as no answer; one that is too long is cut. */
async function read(response: IncomingMessage): Promise<SendResult> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      if (size < MAX_BODY_BYTES) chunks.push(chunk.subarray(0, MAX_BODY_BYTES - size));
      size += chunk.length;
    }
  } catch (error) {
    return { kind: 'unknown', code: 'reset', detail: (error as Error).message };
  }
  const body = Buffer.concat(chunks).toString('utf8');
  return { kind: 'answered', status: response.statusCode ?? 0, headers: response.headers, body };
}
