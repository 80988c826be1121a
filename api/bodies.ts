import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import type { Context } from 'hono';
import { MOST_FAULTS } from '../src/domain/faults.ts';
import { growingBytes } from '../src/domain/ndjson.ts';
import { MAX_JOB_TEXT } from '../src/queue/readable.ts';
import { ClientLeft, TOO_MUCH_AT_ONCE } from './access.ts';
import { MOST_IN_ARRAY, type Result } from './enqueue.ts';
import { invalid, type Problem } from './problems.ts';
import type { ApiEnv } from './serve.ts';

// The bodies of requests and answers: JSON, and streams of lines.

/** The most bytes of a JSON body, by what a route takes. A stream of NDJSON may be of any size. */
export const MOST_BYTES = {
  /** The fields of an operation. */
  fields: 64 * 1024,
  /** One notification: as many as a line of a stream has characters. */
  one: MAX_JOB_TEXT,
  /** 1,000 notifications of 16 kB. */
  array: 16 * 1024 * 1024,
};
/** The most values in an array of notifications: 100 for each of 1,000. Most notifications have about 20. */
const MOST_VALUES = 100_000;
/** A JSON body must come whole within this time, however slowly its bytes come. */
const BODY_MS = 30_000;
export const NDJSON = 'application/x-ndjson';

/** The content type of a request, without its parameters. */
export function typeOf(c: Context): string | undefined {
  return (c.req.header('content-type') ?? '').split(';')[0]?.trim().toLowerCase();
}

export function unsupported(
  type: string | undefined,
  taken: readonly string[] = ['application/json', NDJSON],
): Problem {
  const found = type === undefined || type === '' ? 'none' : JSON.stringify(type.slice(0, 80));
  const detail = `Content-Type: expected ${taken.join(' or ')}, found ${found}`;
  return {
    status: 415,
    code: 'unsupported-media-type',
    detail,
    headers: { 'accept-post': taken.join(', ') },
  };
}

/** What is wrong with the encoding of a body: none that is compressed is taken. */
function encodingProblem(c: Context<ApiEnv>): Problem | undefined {
  const encoding = c.req.header('content-encoding')?.trim().toLowerCase() ?? '';
  if (encoding === '' || encoding === 'identity') return undefined;
  const detail = `Content-Encoding: expected none, found ${JSON.stringify(encoding.slice(0, 80))}`;
  return { status: 415, code: 'unsupported-media-type', detail, headers: { 'accept-encoding': 'identity' } };
}

/** Node's own request: it hands over small pieces that came together as one. A ReadableStream takes its time for each. */
function incomingOf(c: Context<ApiEnv>): IncomingMessage {
  const { incoming } = c.env;
  if (incoming === undefined) throw new TypeError('expected a request that @hono/node-server took, found another one');
  return incoming;
}

/** The bytes of a stream, as they come. As long as it goes on, it counts as one notification that its token has in memory. */
export function bytesOf(
  c: Context<ApiEnv>,
): { readonly bytes: AsyncGenerator<Uint8Array> } | { readonly problem: Problem } {
  const problem = encodingProblem(c);
  if (problem !== undefined) return { problem };
  const share = c.var.shares.bytes;
  if (!share.take(MOST_BYTES.one)) return { problem: TOO_MUCH_AT_ONCE };
  async function* bytes(): AsyncGenerator<Uint8Array> {
    try {
      yield* incomingOf(c).iterator({ destroyOnReturn: false }) as AsyncIterable<Uint8Array>;
    } finally {
      share.give(MOST_BYTES.one);
    }
  }
  return { bytes: bytes() };
}

const NOT_UTF8: Problem = { ...{ status: 400, code: 'not-json' }, detail: 'the body is not UTF-8' };
const TOO_SLOW: Problem = {
  ...{ status: 408, code: 'too-slow', headers: { connection: 'close' } },
  detail: `the body did not come whole within ${BODY_MS / 1_000} s; a stream (${NDJSON}) may take its time`,
};

function tooLarge(most: string): Problem {
  return { status: 413, code: 'too-large', detail: `${most}; send more notifications as ${NDJSON}` };
}

/**
 * The whole body of JSON, as text. Until the request is answered, its bytes count as what its token has in memory. Rejects with
 * ClientLeft if the client leaves before its end.
 *
 * @param most the most bytes of an object, and of an array
 */
export async function readBody(
  c: Context<ApiEnv>,
  most: { readonly one: number; readonly array: number },
): Promise<{ readonly text: string } | { readonly problem: Problem }> {
  const length = Number(c.req.header('content-length') ?? 0);
  const problem = encodingProblem(c) ?? (length > most.array ? tooLarge(bytesText(most.array)) : undefined);
  if (problem !== undefined) return { problem };
  const { hold } = c.var;
  if (!hold(length)) return { problem: TOO_MUCH_AT_ONCE };
  const read = growingBytes();
  let limit: number | undefined;
  const refused = await eachPiece(incomingOf(c), (piece) => {
    const first = piece.find((byte) => byte > SPACE);
    if (first !== undefined) limit ??= first === OPENING_BRACKET ? most.array : most.one;
    read.add(piece);
    if (read.length() > (limit ?? most.one)) return tooLarge(bytesText(limit ?? most.one));
    return length > 0 || hold(piece.length) ? undefined : TOO_MUCH_AT_ONCE;
  });
  if (refused !== undefined) return { problem: refused };
  const bytes = read.take();
  if (!isUtf8(bytes)) return { problem: NOT_UTF8 };
  if (limit === most.array && hasTooManyValues(bytes)) {
    return { problem: tooLarge(`an array of notifications has at most ${MOST_VALUES} values in all`) };
  }
  return { text: bytes.toString() };
}

function bytesText(most: number): string {
  return `this body has at most ${most} bytes`;
}

/** Calls `take` with the pieces of a body as they come, until its end, or until `take` answers with a problem. */
function eachPiece(
  incoming: IncomingMessage,
  take: (piece: Buffer) => Problem | undefined,
): Promise<Problem | undefined> {
  return new Promise((resolve, reject) => {
    const readAll = (): void => {
      for (let piece = incoming.read() as Buffer | null; piece !== null; piece = incoming.read() as Buffer | null) {
        const problem = take(piece);
        if (problem !== undefined) end(problem);
      }
    };
    const end = (problem?: Problem): void => {
      clearTimeout(timer);
      incoming.off('readable', readAll).off('end', end).off('close', closed).off('error', ignored);
      resolve(problem);
    };
    const closed = (): void => {
      if (!incoming.complete) reject(new ClientLeft());
      readAll(); // the client may leave as soon as it has sent all
      end();
    };
    const ignored = (): void => undefined; // `close` follows
    const timer = setTimeout(() => end(TOO_SLOW), BODY_MS);
    incoming
      .on('readable', readAll)
      .on('end', () => end())
      .on('close', closed)
      .on('error', ignored);
    if (incoming.destroyed) closed();
  });
}

const [SPACE, QUOTE, COMMA, OPENING_BRACKET, BACKSLASH, OPENING_BRACE] = [0x20, 0x22, 0x2c, 0x5b, 0x5c, 0x7b];

/** Whether JSON has more values than an array may have. It is not parsed for that: a million empty arrays take 100 MB. */
function hasTooManyValues(bytes: Buffer): boolean {
  let values = 1;
  let isText = false;
  for (let at = 0; at < bytes.length; at++) {
    const byte = bytes[at];
    if (byte === QUOTE) isText = !isText;
    else if (isText) at += byte === BACKSLASH ? 1 : 0;
    else if (byte === COMMA || byte === OPENING_BRACKET || byte === OPENING_BRACE) values++;
    if (values > MOST_VALUES) return true;
  }
  return false;
}

type Parsed = { readonly inputs: readonly unknown[]; readonly isArray: boolean } | { readonly problem: Problem };

export function parseJson(body: string): { readonly value: unknown } | { readonly problem: Problem } {
  try {
    return { value: JSON.parse(body) as unknown };
  } catch (error) {
    // The parser's own message quotes the text, which may contain tokens.
    const at = /position (\d+)/.exec((error as Error).message)?.[1];
    const where = at === undefined ? '' : ` from character ${Number(at) + 1} on`;
    return { problem: { status: 400, code: 'not-json', detail: `the body is not JSON${where}` } };
  }
}

export function parseBody(body: string): Parsed {
  const parsed = parseJson(body);
  if ('problem' in parsed) return parsed;
  const { value } = parsed;
  if (!Array.isArray(value)) return { inputs: [value], isArray: false };
  if (value.length >= 1 && value.length <= MOST_IN_ARRAY) return { inputs: value, isArray: true };
  const expected = `an array of 1 to ${MOST_IN_ARRAY} notifications (send more as ${NDJSON})`;
  return { problem: invalid([{ path: '', expected, found: `an array of ${value.length}` }], 'the body') };
}

/**
 * 202 if at least one notification was added or is there already; else 422 or 409, with the same members. Such a refusal has
 * the faults of as many results as have 20 together.
 */
export function batchAnswer(results: readonly Result[]): Response {
  const counts = { added: 0, duplicate: 0, invalid: 0, conflict: 0, refused: 0 };
  for (const { result } of results) counts[result]++;
  const isTaken = counts.added + counts.duplicate > 0;
  if (isTaken) return json(202, { ...counts, results });
  let listed = 0;
  const first = results.map((each) => {
    if (each.result !== 'invalid') return each;
    const { result, faults } = each;
    const isListed = listed < MOST_FAULTS;
    listed += faults.length;
    return isListed ? { result, faults } : { result };
  });
  return json(counts.invalid > 0 ? 422 : 409, { ...counts, results: first });
}

export function json(status: number, value: unknown, more: Readonly<Record<string, string>> = {}): Response {
  const headers = { 'content-type': 'application/json', ...more };
  return new Response(`${JSON.stringify(value)}\n`, { status, headers });
}

/** A body that is produced as fast as the client reads it. `onEnd` is called once, also if the client disconnects. */
export function streamOf(
  texts: AsyncGenerator<string>,
  onEnd: () => void = () => undefined,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let isOver = false;
  const end = (): void => {
    if (!isOver) onEnd();
    isOver = true;
  };
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const next = await texts.next();
        if (next.done !== true) {
          controller.enqueue(encoder.encode(next.value));
          return;
        }
      } catch (error) {
        end();
        throw error;
      }
      end();
      controller.close();
    },
    async cancel() {
      end();
      await texts.return(undefined);
    },
  });
}
