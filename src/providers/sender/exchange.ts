import { constants, type ClientHttp2Stream, type IncomingHttpHeaders, type OutgoingHttpHeaders } from 'node:http2';
import type { Connection } from './connection.ts';
import { unsent, type SendResult } from './result.ts';

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
  stream.on('error', ignored); // `stream.errored` is read on `close`
  stream.on('close', () => {
    clearTimeout(timer);
    connection.giveBack();
    // A body that was cut off also emits `end`, but has an error code.
    const isComplete = stream.readableEnded && stream.rstCode === constants.NGHTTP2_NO_ERROR;
    const failure = stream.errored ?? undefined;
    if (head !== undefined && isComplete) {
      resolve({ kind: 'answered', status: Number(head[':status']), headers: head, body: textOf(chunks) });
    } else if (head === undefined && connection.isUnseen(stream)) resolve(unsent('refused-stream', failure));
    else resolve({ kind: 'unknown', code: 'reset', ...(failure && { detail: failure.message }) });
  });
  stream.end(body);
  return { result, abort: () => giveUp('aborted') };
}

function ignored(): void {
  // Without a listener Node would end the process.
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

function textOf(chunks: readonly Buffer[]): string {
  return chunks.length === 0 ? '' : Buffer.concat(chunks).toString('utf8');
}
