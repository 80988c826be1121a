import type { Readable } from 'node:stream';

/** The body, cut after `mostBytes` + 1; undefined if the client gave up before its end. */
export function readBody(stream: Readable, mostBytes: number): Promise<Buffer | undefined> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    stream.on('data', (chunk: Buffer) => {
      if (bytes <= mostBytes) chunks.push(chunk);
      bytes += chunk.length;
    });
    stream.once('end', () => resolve(Buffer.concat(chunks).subarray(0, mostBytes + 1)));
    stream.once('close', () => resolve(undefined)); // changes nothing after `end`
    stream.on('error', () => resolve(undefined));
  });
}

/** The JSON object in a body; undefined if it is not one. */
export function parseJsonObject(body: Buffer): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(body.toString('utf8'));
    return isRecord(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
