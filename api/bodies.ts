import { isUtf8 } from 'node:buffer';
import type { Context } from 'hono';
import { MOST_IN_ARRAY, type Result } from './enqueue.ts';
import { invalid, type Problem } from './problems.ts';

// The bodies of requests and answers: JSON, and streams of lines.

/** The largest JSON body: 1,000 notifications of 16 kB. A stream of NDJSON may be of any size. */
export const MOST_BYTES = 16 * 1024 * 1024;
export const NDJSON = 'application/x-ndjson';

const TOO_LARGE: Problem = {
  ...{ status: 413, code: 'too-large' },
  detail: `a JSON body has at most ${MOST_BYTES} bytes; send more as ${NDJSON}`,
};

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

export async function* bytesOf(body: ReadableStream<Uint8Array> | null): AsyncGenerator<Uint8Array> {
  if (body !== null) yield* body;
}

const NOT_UTF8: Problem = { ...{ status: 400, code: 'not-json' }, detail: 'the body is not UTF-8' };

export async function readBody({
  headers,
  body,
}: Request): Promise<{ readonly text: string } | { readonly problem: Problem }> {
  if (Number(headers.get('content-length') ?? 0) > MOST_BYTES) return { problem: TOO_LARGE };
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of bytesOf(body)) {
    bytes += chunk.byteLength;
    if (bytes > MOST_BYTES) return { problem: TOO_LARGE };
    chunks.push(chunk);
  }
  const read = Buffer.concat(chunks);
  return isUtf8(read) ? { text: read.toString('utf8') } : { problem: NOT_UTF8 };
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

/** 202 if at least one notification was added or is there already; else 422 or 409, with the same members. */
export function batchAnswer(results: readonly Result[]): Response {
  const counts = { added: 0, duplicate: 0, invalid: 0, conflict: 0, refused: 0 };
  for (const { result } of results) counts[result]++;
  const isTaken = counts.added + counts.duplicate > 0;
  return json(isTaken ? 202 : counts.invalid > 0 ? 422 : 409, { ...counts, results });
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
