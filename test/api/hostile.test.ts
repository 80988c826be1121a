import { request } from 'node:http';
import { expect, it } from 'vitest';
import { openApiDocument } from '../../api/openapi.ts';
import { openApi } from '../support/api.ts';
import { documentOf } from '../support/openapi.ts';

const { paths } = documentOf(openApiDocument());

const KIB = 1_024;
const names = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`n${at}`, 1]));
const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);

/** The names of a body's fields, as the document has them. */
function fieldsOf(schema: unknown): readonly string[] {
  const { properties = {}, $ref } = schema as { readonly properties?: object; readonly $ref?: string };
  return $ref === undefined ? Object.keys(properties) : ['devices', 'data', 'recipientId'];
}

/** Hostile bodies of about this many bytes, by what they are. `field`: a field that the route has. */
function hostile(bytes: number, field: string): Readonly<Record<string, string>> {
  const of = (value: string): string => `{${JSON.stringify(field)}:${value}}`;
  return {
    'unknown keys': JSON.stringify(names(Math.floor(bytes / 12))),
    'a long array of numbers': of(
      `[${Array(Math.floor(bytes / 2 - 20))
        .fill(1)
        .join()}]`,
    ),
    'a long array of objects': of(
      `[${Array(Math.floor(bytes / 3 - 20))
        .fill('{}')
        .join()}]`,
    ),
    'a long text': of(`"${'x'.repeat(bytes - 40)}"`),
    'a text of commas': of(`"${','.repeat(bytes - 40)}"`),
    'a text of escapes': of(`"${'\\u0007'.repeat(Math.floor(bytes / 6 - 10))}"`),
    nesting: of(nested(Math.floor(bytes / 2 - 20))),
    'no JSON': '['.repeat(bytes - 10),
    'beyond its size': of(`"${'x'.repeat(bytes)}"`),
  };
}

interface Route {
  readonly path: string;
  readonly bodies: Readonly<Record<string, string>>;
}

/** Each route that takes a body, with hostile bodies as large as it takes. */
const ROUTES: readonly Route[] = Object.entries(paths).flatMap(([template, { post }]) => {
  const schema = post?.requestBody?.content['application/json']?.schema;
  if (schema === undefined) return [];
  const path = template.replace('{id}', 'msg-1');
  if (template !== '/v1/notifications') {
    const [field = 'none'] = fieldsOf(schema);
    return ['', ...(/block|limit|quiet|admit|replay|discard/.test(path) ? ['?preview=true'] : [])].map((query) => ({
      ...{ path: `${path}${query}`, bodies: hostile(64 * KIB, field) },
    }));
  }
  const one = { path, bodies: { ...hostile(400_000, 'devices'), ...hostile(400_000, 'data') } };
  const many = Object.entries(hostile(900, 'devices')).filter(([name]) => !/JSON|size/.test(name));
  const arrays = many.map(([name, body]) => [`1,000 of ${name}`, `[${Array(1_000).fill(body).join()}]`] as const);
  return [
    one,
    { path, bodies: { ...Object.fromEntries(arrays), 'a million values': `[${Array(1e6).fill('[]').join()}]` } },
  ];
});

/** Sends a body, in pieces of `size` bytes each, and resolves to the answer. */
function post(url: string, secret: string, body: Buffer, type: string, size?: number) {
  return new Promise<{ readonly status: number; readonly bytes: number }>((resolve, reject) => {
    const headers = { authorization: `Bearer ${secret}`, 'content-type': type };
    const asked = request(url, { method: 'POST', headers, agent: false }, (response) => {
      let bytes = 0;
      response.on('data', (chunk: Buffer) => (bytes += chunk.length));
      response.on('end', () => resolve({ status: response.statusCode ?? 0, bytes }));
    });
    asked.on('error', reject);
    if (size === undefined) asked.end(body);
    else {
      for (let from = 0; from < body.length; from += size) asked.write(body.subarray(from, from + size));
      asked.end();
    }
  });
}

/**
 * The processor time of this process, in milliseconds: that of the API, and that of the client beside it. A busy machine makes
 * anything slow, so the quickest of two is judged.
 */
async function cpuMs<T>(work: () => Promise<T>): Promise<readonly [tookMs: number, result: T]> {
  const takes: (readonly [number, T])[] = [];
  for (let time = 0; time < 2; time++) {
    const before = process.threadCpuUsage();
    const result = await work();
    const { user, system } = process.threadCpuUsage(before);
    takes.push([(user + system) / 1_000, result]);
  }
  return takes.reduce((a, b) => (b[0] < a[0] ? b : a));
}

/** How much slower this machine is now than one on which this takes 10 ms. */
async function slowness(): Promise<number> {
  const text = JSON.stringify(names(40_000));
  const [tookMs] = await cpuMs(() => Promise.resolve(JSON.parse(text) as unknown));
  return Math.max(1, tookMs / 10);
}

const MOST_CPU_MS = 150;
const MOST_HELD = 50 * KIB * KIB;
const MOST_ANSWER = 64_000;

it('no hostile body of any route takes long, holds much, or gets a long answer', { timeout: 180_000 }, async () => {
  const api = await openApi();
  const { all: secret } = api.secrets;
  const faults: string[] = [];
  const statuses = new Set<number>();
  const times = await slowness();
  let sent = 0;
  for (const { path, bodies } of ROUTES) {
    for (const [name, text] of Object.entries(bodies)) {
      const body = Buffer.from(text);
      const before = process.memoryUsage().rss;
      const [tookMs, { status, bytes }] = await cpuMs(() =>
        post(`${api.url}${path}`, secret, body, 'application/json'),
      );
      const held = process.memoryUsage().rss - before;
      statuses.add(status);
      sent++;
      const what = `${path}: ${name}: ${status}`;
      // 401, 403, 404 and 415 would mean that it was refused before it was looked at.
      if (![400, 413, 422].includes(status)) faults.push(what);
      if (tookMs > MOST_CPU_MS * times) faults.push(`${what}: ${Math.round(tookMs)} ms`);
      if (held > MOST_HELD) faults.push(`${what}: ${Math.round(held / KIB / KIB)} MB`);
      if (bytes > MOST_ANSWER) faults.push(`${what}: an answer of ${bytes} bytes`);
    }
  }
  expect(faults).toEqual([]);
  expect([...statuses].toSorted()).toEqual([400, 413, 422]);
  expect(sent).toBeGreaterThan(200);
  expect(await api.queue.getJobCountByTypes()).toBe(0);
});

it('a body by single bytes takes no longer than its pieces', async () => {
  const api = await openApi();
  const { all: secret } = api.secrets;
  const times = await slowness();
  const line = Buffer.alloc(20_000, 'x');
  for (const [path, type, expected] of [
    ['/v1/recipients/a/block', 'application/json', 400],
    ['/v1/notifications', 'application/json', 400],
    ['/v1/notifications', 'application/x-ndjson', 200],
  ] as const) {
    const small = await cpuMs(() => post(`${api.url}${path}`, secret, line.subarray(0, 2_000), type, 1));
    const [tookMs, { status }] = await cpuMs(() => post(`${api.url}${path}`, secret, line, type, 1));
    expect([path, status]).toEqual([path, expected]);
    // The client, in this process too, writes each byte by itself.
    expect(tookMs).toBeLessThan(MOST_CPU_MS * times + 20 * small[0]);
  }
});
