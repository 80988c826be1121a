import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type OutgoingHttpHeaders,
  type Settings,
  type IncomingHttpHeaders,
} from 'node:http2';
import { isIP } from 'node:net';
import { connect as connectTls, type SecureContext, type TLSSocket } from 'node:tls';
import {
  type Endpoint,
  connectFailure,
  connectTimeout,
  NO_HTTP2,
  tlsOptions,
  type Unsent,
  unsent,
  type SendResult,
} from './result.ts';

export interface ConnectionOptions {
  readonly endpoint: Endpoint;
  /** Trusted certificates; the system's by default. */
  readonly secureContext?: SecureContext | undefined;
  /** Offers HTTP/1.1 too, so that a server without HTTP/2 shows it: `no-http2`. Default: false. */
  readonly offersHttp1?: boolean | undefined;
  /** How long TCP, TLS and the server's first SETTINGS may take together. */
  readonly connectTimeoutMs: number;
  /** How often a PING checks that the server still answers. */
  readonly pingEveryMs: number;
}

/** How long the answer to a PING may take. */
const PING_TIMEOUT_MS = 5_000;
/** How often it is looked at whether the socket was reset without a word. */
const LOOK_MS = 250;
/** A PING is sent where an answer is due, and no request ended for so many looks: a second, four times the 99th percentile of answers. */
const SILENT_LOOKS = 4;

export interface ConnectionEvents {
  /** It carries requests from now on. */
  onOpen(): void;
  /** A stream was given back, or the server allows more streams. */
  onFree(): void;
  /** It takes no more requests; those under way may still be answered. `failure` is given if it never opened. */
  onEnd(failure?: Unsent): void;
}

/** One HTTP/2 session: how many streams the server allows on it, and how many are in use. */
export class Connection {
  readonly #socket: TLSSocket;
  readonly #session: ClientHttp2Session;
  readonly #options: ConnectionOptions;
  readonly #events: ConnectionEvents;
  readonly #openedAt = performance.now();
  #state: 'connecting' | 'open' | 'ended' = 'connecting';
  #inUse = 0;
  #maxStreams = 0;
  #hasAnswered = false;
  /** The last stream that the server looks at, after its GOAWAY. */
  #lastStreamId = Infinity;
  #pinging: NodeJS.Timeout | undefined;
  #isPinging = false;
  /** At the last look: the bytes that had been written, and whether frames waited. */
  #seen = { written: NaN, waits: false };
  /** At so many looks in turn an answer was due. Its PING is sent once, since servers do not like many. */
  #silentLooks = 0;

  constructor(options: ConnectionOptions, events: ConnectionEvents) {
    this.#options = options;
    this.#events = events;
    const { host, port } = options.endpoint;
    const socket = connectTls({
      ...tlsOptions(options.endpoint, options.secureContext),
      ALPNProtocols: options.offersHttp1 ? ['h2', 'http/1.1'] : ['h2'],
    });
    // Before the session's own listener, so that a server without HTTP/2 never gets its first bytes.
    socket.once('secureConnect', () => {
      if (socket.alpnProtocol === 'h2') return;
      this.#destroy(Object.assign(new Error('the server did not choose HTTP/2'), { code: NO_HTTP2 }));
    });
    const session = connect(`https://${isIP(host) === 6 ? `[${host}]` : host}:${port}`, {
      createConnection: () => socket,
      settings: { enablePush: false },
    });
    this.#socket = socket;
    this.#session = session;
    const giveUp = setTimeout(() => {
      this.#destroy(connectTimeout(options.connectTimeoutMs));
    }, options.connectTimeoutMs);
    const looking = setInterval(() => this.#look(), LOOK_MS).unref();
    session.on('error', (error: Error) => {
      this.#destroy(error);
    });
    session.on('remoteSettings', ({ maxConcurrentStreams = Infinity }: Settings) => {
      this.#maxStreams = maxConcurrentStreams;
      clearTimeout(giveUp);
      if (this.#state === 'connecting') this.#open();
      else this.#events.onFree();
    });
    session.on('goaway', (_code: number, lastStreamId: number) => {
      this.#lastStreamId = lastStreamId;
      this.#end();
    });
    session.on('close', () => {
      this.#destroy();
    });
    // A session that is destroyed during its handshake was seen to emit no `close`; its socket always does.
    socket.on('close', () => {
      clearTimeout(giveUp);
      clearInterval(looking);
      clearInterval(this.#pinging);
      this.#destroy();
    });
  }

  get isConnecting(): boolean {
    return this.#state === 'connecting';
  }

  /** A request was answered, so `maxStreams` is what the server really allows (APNs begins with one stream). */
  get hasAnswered(): boolean {
    return this.#hasAnswered;
  }

  noteAnswer(): void {
    this.#hasAnswered = true;
  }

  get maxStreams(): number {
    return this.#maxStreams;
  }

  get freeStreams(): number {
    return this.#isUsable ? Math.max(0, this.#maxStreams - this.#inUse) : 0;
  }

  /** Milliseconds since it began to connect. */
  get ageMs(): number {
    return performance.now() - this.#openedAt;
  }

  /** Sets a stream aside. The caller must call `giveBack` later. */
  take(): void {
    this.#inUse += 1;
  }

  giveBack(): void {
    this.#inUse -= 1;
    this.#silentLooks = 0;
    if (this.#state === 'open') this.#events.onFree();
  }

  /** Undefined if the connection has ended: nothing was sent. */
  request(headers: OutgoingHttpHeaders): ClientHttp2Stream | undefined {
    return this.#isUsable ? this.#session.request(headers) : undefined;
  }

  /** Whether the server certainly did not process this stream: it got no number, was refused, or is above the GOAWAY. */
  isUnseen({ id, rstCode }: ClientHttp2Stream): boolean {
    return id === undefined || rstCode === constants.NGHTTP2_REFUSED_STREAM || id > this.#lastStreamId;
  }

  /** Ends it unless the server answers a PING. Does nothing while another one is under way. */
  ping(): void {
    if (this.#isPinging || this.#session.destroyed) return;
    this.#isPinging = true;
    const timer = setTimeout(() => {
      // If this process was stalled, the answer may already lie in the socket: `setImmediate` lets it be read first.
      setImmediate(() => {
        if (this.#isPinging) this.#destroy(new Error('the server does not answer a PING'));
      });
    }, PING_TIMEOUT_MS);
    // The callback always runs, with an error if the session ends first.
    this.#session.ping(() => {
      this.#isPinging = false;
      clearTimeout(timer);
    });
  }

  /** Takes no more requests, ends those under way, and resolves when it is closed. Does not wait for the server. */
  async close(): Promise<void> {
    this.#end();
    this.#destroy();
    if (!this.#socket.closed) await new Promise((resolve) => this.#socket.once('close', resolve));
  }

  /** Looks at the session too, since it ends before it emits `close`. */
  get #isUsable(): boolean {
    return this.#state === 'open' && !this.#session.destroyed && !this.#session.closed;
  }

  #open(): void {
    this.#state = 'open';
    this.#silentLooks = 0;
    this.#pinging = setInterval(() => this.ping(), this.#options.pingEveryMs).unref();
    this.#events.onOpen();
  }

  /**
   * Ends it if it was reset and Node does not say so. Where a write is the first to meet the reset, and one more follows before the
   * socket is read, Node (24.21) neither writes nor reads there any more, and emits nothing. Then a PING cannot be written either, so
   * that a frame waits, on a socket without a peer.
   */
  #look(): void {
    const { outboundQueueSize } = this.#session.state;
    if (outboundQueueSize === undefined) return; // TLS has not begun, or all is over
    const { bytesWritten: written } = this.#socket;
    const seen = this.#seen;
    const waits = outboundQueueSize > 0;
    this.#seen = { written, waits };
    // The peer is asked for only when frames are stuck: Node keeps the first answer that it gets.
    if (waits && seen.waits && seen.written === written && this.#socket.remoteAddress === undefined) {
      this.#destroy(new Error('the connection was reset'));
      return;
    }
    this.#silentLooks = this.#inUse > 0 || this.isConnecting ? this.#silentLooks + 1 : 0;
    if (this.#silentLooks === SILENT_LOOKS) this.ping();
  }

  #destroy(error?: Error): void {
    this.#end(this.#state === 'connecting' ? connectFailure(error) : undefined);
    this.#session.destroy(error);
    this.#socket.destroy();
  }

  #end(failure?: Unsent): void {
    if (this.#state === 'ended') return;
    this.#state = 'ended';
    this.#events.onEnd(failure);
  }
}

export interface SendRequest {
  /** With `:method` and `:path`. */
  readonly headers: OutgoingHttpHeaders;
  readonly body: string | Buffer;
}

/** One request that was handed to a connection. */
export interface Exchange {
  readonly result: Promise<SendResult>;
  /** Ends the request with the result `aborted`, unless it has a result already. */
  abort(): void;
}

/** Providers answer with some hundred bytes; the rest of a longer body is dropped. */
export const MAX_BODY_BYTES = 65_536;

/**
 * Sends one request on a stream that was set aside (`connection.take()`), and gives the stream back when it has ended.
 * Undefined if the connection has ended meanwhile: nothing was sent, and the stream is given back.
 *
 * @throws if the headers cannot be sent, which is a bug here. The stream is given back.
 */
export function exchange(
  connection: Connection,
  { headers, body }: SendRequest,
  timeoutMs: number,
): Exchange | undefined {
  const stream = open(connection, headers);
  if (stream === undefined) return undefined;
  const { promise: result, resolve } = Promise.withResolvers<SendResult>();
  let isGivenUp = false;
  const giveUp = (code: 'timeout' | 'aborted'): void => {
    if (stream.closed) return;
    isGivenUp = true;
    resolve({ kind: 'unknown', code }); // does not wait for the stream's `close`, which may take long on a silent network
    stream.close(constants.NGHTTP2_CANCEL);
  };
  const look = (): void => {
    giveUp('timeout');
    if (isGivenUp) connection.ping();
  };
  // If this process was stalled, an answer may already lie in the socket: `setImmediate` lets it be read first.
  const timer = setTimeout(setImmediate, timeoutMs, look);

  let head: IncomingHttpHeaders | undefined;
  const chunks: Buffer[] = [];
  let size = 0;
  stream.on('response', (received) => {
    head = received;
    connection.noteAnswer();
  });
  stream.on('data', (chunk: Buffer) => {
    if (size < MAX_BODY_BYTES) chunks.push(chunk.subarray(0, MAX_BODY_BYTES - size));
    size += chunk.length;
  });
  // Without a listener Node would end the process. `stream.errored` is read on `close`.
  stream.on('error', () => undefined);
  stream.on('close', () => {
    clearTimeout(timer);
    connection.giveBack();
    // A body that was cut off also emits `end`, but has an error code.
    const isComplete = stream.readableEnded && stream.rstCode === constants.NGHTTP2_NO_ERROR;
    const failure = stream.errored ?? undefined;
    if (head !== undefined && isComplete) {
      resolve({
        kind: 'answered',
        status: Number(head[':status']),
        headers: head,
        body: Buffer.concat(chunks).toString('utf8'),
      });
    } else if (head === undefined && connection.isUnseen(stream)) resolve(unsent('refused-stream', failure));
    else resolve({ kind: 'unknown', code: 'reset', ...(failure && { detail: failure.message }) });
  });
  stream.end(body);
  return { result, abort: () => giveUp('aborted') };
}

function open(connection: Connection, headers: OutgoingHttpHeaders): ClientHttp2Stream | undefined {
  let stream: ClientHttp2Stream | undefined;
  try {
    stream = connection.request(headers);
    return stream;
  } finally {
    if (stream === undefined) connection.giveBack();
  }
}
