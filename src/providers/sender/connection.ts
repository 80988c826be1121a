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
  /** The trusted certificates; the system's by default. */
  readonly secureContext?: SecureContext | undefined;
  /** Offers HTTP/1.1 too: a server that chooses it has no HTTP/2, and the result is `no-http2`. Default: false. */
  readonly offersHttp1?: boolean | undefined;
  /** How long TCP, TLS and the server's first SETTINGS may take together. */
  readonly connectTimeoutMs: number;
  /** How often a PING checks that the server still answers. */
  readonly pingEveryMs: number;
}

/** How long the answer to a PING may take. */
const PING_TIMEOUT_MS = 5_000;
/** How often the socket is checked for a reset that Node does not report. */
const LOOK_MS = 250;
/**
 * A PING is sent after this many looks in a row at which an answer was due and no request had ended: after one second, four
 * times the 99th percentile of answers.
 */
const SILENT_LOOKS = 4;

export interface ConnectionEvents {
  /** The connection carries requests from now on. */
  onOpen(): void;
  /** A stream was given back, or the server allows more streams. */
  onFree(): void;
  /** The connection takes no more requests; requests under way may still be answered. `failure`: why it never opened. */
  onEnd(failure?: Unsent): void;
}

/** One HTTP/2 connection: how many streams the server allows on it, and how many are in use. */
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
  /** After a GOAWAY: the last stream that the server will process. */
  #lastStreamId = Infinity;
  /** Whether the GOAWAY's code was REFUSED_STREAM. Node then gives this code to every stream, even if it may be processed. */
  #isCodeOfAll = false;
  #pinging: NodeJS.Timeout | undefined;
  #isPinging = false;
  /** At the last look: how many bytes had been written, and whether frames waited to be written. */
  #seen = { written: NaN, waits: false };
  /** At how many looks in a row an answer was due. Each such row gets one PING, since servers do not like many PINGs. */
  #silentLooks = 0;

  constructor(options: ConnectionOptions, events: ConnectionEvents) {
    this.#options = options;
    this.#events = events;
    const { host, port } = options.endpoint;
    const socket = connectTls({
      ...tlsOptions(options.endpoint, options.secureContext),
      ALPNProtocols: options.offersHttp1 ? ['h2', 'http/1.1'] : ['h2'],
    });
    // Registered before the session's own listener, so that a server without HTTP/2 never gets the session's first bytes.
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
    session.on('goaway', (code: number, lastStreamId: number) => {
      this.#lastStreamId = lastStreamId;
      this.#isCodeOfAll = code === constants.NGHTTP2_REFUSED_STREAM;
      this.#end();
    });
    session.on('close', () => {
      this.#destroy();
    });
    // A session that is destroyed during its handshake was seen to emit no `close`; its socket always emits one.
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

  /** Whether a request was answered. Only then `maxStreams` is what the server really allows (APNs begins with one stream). */
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

  /** Milliseconds since the connection began to open. */
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

  /** Begins a request. Undefined if the connection has ended: then nothing was sent. */
  request(headers: OutgoingHttpHeaders): ClientHttp2Stream | undefined {
    return this.#isUsable ? this.#session.request(headers, BODY_FOLLOWS) : undefined;
  }

  /**
   * Whether the server certainly did not process this stream: the stream has no number, was refused, or is above the last
   * stream of the GOAWAY.
   */
  isUnseen({ id, rstCode }: ClientHttp2Stream): boolean {
    if (id === undefined || id > this.#lastStreamId) return true;
    return rstCode === constants.NGHTTP2_REFUSED_STREAM && !this.#isCodeOfAll;
  }

  /** Ends the connection unless the server answers a PING. Does nothing while another PING is under way. */
  ping(): void {
    if (this.#isPinging || this.#session.destroyed) return;
    this.#isPinging = true;
    const timer = setTimeout(() => {
      // If this process was stalled, the answer may already be in the socket: `setImmediate` lets it be read first.
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

  /** Ends all requests, takes no more, and resolves when the connection is closed. Does not wait for the server. */
  async close(): Promise<void> {
    this.#end();
    this.#destroy();
    if (!this.#socket.closed) await new Promise((resolve) => this.#socket.once('close', resolve));
  }

  /** Checks the session too, since a session ends before it emits `close`. */
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
   * Ends the connection if it was reset but Node does not report that. If a write is the first to meet the reset, and one more
   * write follows before the socket is read, Node (24.21) stops writing and reading there, and emits nothing. Then a PING
   * cannot be written either, so a frame waits on a socket that has no peer.
   */
  #look(): void {
    const { outboundQueueSize } = this.#session.state;
    if (outboundQueueSize === undefined) return; // TLS has not begun, or the session has ended
    const { bytesWritten: written } = this.#socket;
    const seen = this.#seen;
    const waits = outboundQueueSize > 0;
    this.#seen = { written, waits };
    // The peer's address is read only when frames are stuck, since Node keeps the first value that was read.
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
  /** The headers, with `:method` and `:path`. */
  readonly headers: OutgoingHttpHeaders;
  readonly body: string | Buffer;
  /** The answer's body is cut off after this many bytes. Default: `MAX_BODY_BYTES`. HTTP/1.1 ignores this option. */
  readonly maxBodyBytes?: number;
}

/** Without this, Node itself ends the stream of a GET or a DELETE, and `exchange` could not end it. */
const BODY_FOLLOWS = { endStream: false } as const;

/** One request that was handed to a connection. */
export interface Exchange {
  readonly result: Promise<SendResult>;
  /** Ends the request with the result `aborted`, unless it has a result already. */
  abort(): void;
}

/** Providers answer with some hundred bytes. A longer body is cut off after this many bytes. */
export const MAX_BODY_BYTES = 65_536;

/**
 * Sends one request on a stream that was set aside (`connection.take()`), and gives the stream back when the request has ended.
 * Undefined if the connection has ended meanwhile: then nothing was sent, and the stream is given back.
 *
 * @throws if the headers cannot be sent, which is a bug of this project. The stream is given back.
 */
export function exchange(
  connection: Connection,
  { headers, body, maxBodyBytes = MAX_BODY_BYTES }: SendRequest,
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
  // If this process was stalled, an answer may already be in the socket: `setImmediate` lets it be read first.
  const timer = setTimeout(setImmediate, timeoutMs, look);

  let head: IncomingHttpHeaders | undefined;
  const chunks: Buffer[] = [];
  let size = 0;
  stream.on('response', (received) => {
    head = received;
    connection.noteAnswer();
  });
  stream.on('data', (chunk: Buffer) => {
    if (size < maxBodyBytes) chunks.push(chunk.subarray(0, maxBodyBytes - size));
    size += chunk.length;
  });
  // Without a listener for `error`, Node would end the process. The error is read from `stream.errored` on `close`.
  stream.on('error', () => undefined);
  stream.on('close', () => {
    clearTimeout(timer);
    connection.giveBack();
    // A body that was cut off emits `end` too, but the stream then has an error code.
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
