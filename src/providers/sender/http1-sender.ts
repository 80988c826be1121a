import type { ClientRequest, IncomingMessage } from 'node:http';
import { Agent, request as httpsRequest } from 'node:https';
import { connect, type TLSSocket } from 'node:tls';
import { MAX_BODY_BYTES, type SendRequest } from './connection.ts';
import { PlacePermit, Waiting } from './pool.ts';
import {
  NO_HTTP2,
  type SendResult,
  type Unsent,
  connectFailure,
  connectTimeout,
  createReach,
  tlsOptions,
  unsent,
} from './result.ts';
import { createSender, type Sender, type SenderOptions } from './sender.ts';

/**
 * Speaks HTTP/2, or HTTP/1.1 if the server speaks nothing else. The server chooses in the TLS handshake (ALPN, RFC 7301).
 * After the first connection that ends with `no-http2`, this sender only speaks HTTP/1.1.
 */
export function createNegotiatedSender(options: SenderOptions): Sender {
  const http2 = createSender({ ...options, offersHttp1: true });
  let http1: Sender | undefined;
  let isClosed = false;
  /** `close` waits for this. `fallBack` closes the HTTP/2 sender at once, because its pool would connect again and again. */
  const closing: Promise<void>[] = [];

  function fallBack(): Sender {
    if (http1 !== undefined) return http1;
    closing.push(http2.close());
    return (http1 = createHttp1Sender(options));
  }

  const current = (): Sender => http1 ?? http2;
  const isWithoutHttp2 = (result: SendResult | Unsent | object): boolean =>
    !isClosed && 'code' in result && result.code === 'no-http2';

  return {
    reserve() {
      const found = current().reserve();
      if (!(found instanceof Promise)) return found;
      return found.then((answer) => (isWithoutHttp2(answer) ? fallBack().reserve() : answer));
    },
    async send(request, when = {}) {
      const result = await current().send(request, when);
      if (!isWithoutHttp2(result)) return result;
      return fallBack().send(request, { ...when, permit: undefined });
    },
    connect: () => current().connect(),
    reach() {
      const found = current().reach();
      return found?.failure?.cause === NO_HTTP2 ? undefined : found; // the server was reached, and HTTP/1.1 is tried next
    },
    abort() {
      current().abort();
    },
    async close() {
      isClosed = true;
      await Promise.all([current().close(), ...closing]);
    },
  };
}

/** An idle connection is closed after this. Servers keep it for longer, so a request rarely meets a closed connection. */
const IDLE_MS = 4_000;

/**
 * A sender for a server without HTTP/2: one request at a time on each connection, at most `maxConnections` at once. A permit is
 * a connection that is already open, so that no request waits for a connection after its slot.
 */
export function createHttp1Sender(options: SenderOptions): Sender {
  const { endpoint, secureContext, requestTimeoutMs = 10_000, connectTimeoutMs = 5_000, maxConnections = 16 } = options;
  const waiting = new Waiting<Slot>();
  let free = maxConnections;
  const reach = createReach(endpoint);
  const agent = new Agent({ keepAlive: true, maxSockets: maxConnections, timeout: IDLE_MS });
  /** Connections that were opened for permits, and have had no request yet. */
  const fresh = new Set<TLSSocket>();
  const createConnection = agent.createConnection.bind(agent);
  agent.createConnection = (connectOptions, onCreated) => {
    const socket = [...fresh].find(({ destroyed, readable }) => !destroyed && readable);
    if (socket === undefined) return createConnection(connectOptions, onCreated);
    fresh.delete(socket);
    return socket;
  };
  /** Each function ends one connection that is being opened. */
  const opening = new Set<() => void>();
  const underWay = new Map<Promise<SendResult>, () => void>();
  /** Connections whose handshake is done. */
  const opened = new WeakSet<TLSSocket>();
  let isClosed = false;

  function take(): Slot | undefined {
    if (free === 0) return undefined;
    free -= 1;
    const giveBack = (): void => {
      free += 1;
      waiting.serve(take);
    };
    return new Slot({ giveBack });
  }

  async function reserve(until = Infinity): Promise<Slot | Unsent> {
    if (isClosed) return unsent('closed');
    const slot = take() ?? (await waiting.join(until));
    if (!(slot instanceof Slot)) return slot;
    const idle = Object.values(agent.freeSockets).reduce((sum, sockets = []) => sum + sockets.length, fresh.size);
    const promised = maxConnections - free - underWay.size;
    const failure = idle < promised ? await openConnection() : undefined;
    if (failure === undefined) return slot;
    slot.release();
    return failure;
  }

  /** Opens one more connection. Resolves to the failure, or to undefined if the connection is open. */
  function openConnection(): Promise<Unsent | undefined> {
    const { promise, resolve } = Promise.withResolvers<Unsent | undefined>();
    const beganAt = performance.now();
    const socket = connect({ ...tlsOptions(endpoint, secureContext), ALPNProtocols: ['http/1.1'] });
    const end = (failure?: Unsent): void => {
      clearTimeout(timer);
      opening.delete(abort);
      if (failure !== undefined) socket.destroy();
      resolve(failure);
    };
    const abort = (): void => end(unsent('cancelled'));
    const fail = (error: Error): void => {
      const failure = connectFailure(error);
      if (opening.has(abort)) reach.failed(failure, beganAt);
      end(failure);
    };
    const timer = setTimeout(() => fail(connectTimeout(connectTimeoutMs)), connectTimeoutMs);
    opening.add(abort);
    socket.on('error', fail);
    socket.once('close', () => fresh.delete(socket));
    socket.once('secureConnect', () => {
      reach.succeeded();
      opened.add(socket);
      fresh.add(socket);
      socket.setTimeout(IDLE_MS, () => fresh.has(socket) && socket.destroy());
      end();
    });
    return promise;
  }

  function open({ headers }: SendRequest): ClientRequest {
    const { ':method': method, ':path': path, ...rest } = headers;
    return httpsRequest({
      ...tlsOptions(endpoint, secureContext),
      agent,
      method: String(method),
      path: String(path),
      headers: rest,
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
    const giveUpConnecting = (): void => end(unreached(connectFailure(connectTimeout(connectTimeoutMs))));
    // `setImmediate` lets an answer that is already in the socket be read first, if this process was stalled.
    const giveUp = (): void => void setImmediate(() => end({ kind: 'unknown', code: 'timeout' }));
    let timer = setTimeout(giveUpConnecting, connectTimeoutMs);

    /** Called once there is a connection. Until then nothing has been sent, and `sendBy` may pass. */
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
      if (sent.reusedSocket || opened.has(socket)) write();
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
    reserve: () => reserve(),
    async send(request, { permit, sendBy = Infinity } = {}) {
      let slot = permit instanceof Slot ? permit.use() : undefined;
      if (slot === undefined) {
        permit?.release(); // the permit may be from the HTTP/2 sender, which this one has replaced
        const found = await reserve(sendBy);
        if (!(found instanceof Slot)) return found;
        slot = found.use();
      }
      try {
        if (isClosed) return unsent('closed');
        if (performance.now() > sendBy) return unsent('too-late');
        return await exchange(request, sendBy);
      } finally {
        slot?.giveBack();
      }
    },
    connect: () => Promise.resolve(),
    reach: () => (isClosed ? undefined : reach.now()),
    abort() {
      waiting.giveUp(unsent('cancelled'));
      for (const abort of [...opening, ...underWay.values()]) abort();
    },
    async close() {
      isClosed = true;
      waiting.giveUp(unsent('closed'));
      await Promise.allSettled(underWay.keys());
      for (const abort of opening) abort();
      for (const socket of fresh) socket.destroy();
      agent.destroy();
    },
  };
}

/** Reads an answer. A body that was cut off by the network counts as no answer; a body that is too long is shortened. */
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

class Slot extends PlacePermit<{ giveBack(): void }> {}
