import { beforeEach, expect, it } from 'vitest';
import { createConsoleApp } from '../../console/app.ts';
import type { ConsoleParts } from '../../console/parts.ts';
import { createSessions } from '../../console/session.ts';
import { createLog } from '../../src/observe/log.ts';
import { DEAD_LETTER_REASONS } from '../../src/notification/outcome.ts';
import { OPERATIONS } from '../../src/operations/catalogue.ts';
import { fieldsOf } from '../../src/operations/fields.ts';
import { FILTER, TAKE } from '../../src/operations/taking.ts';
import { addDead, deadLetter } from '../dead-letters/letters.ts';
import { openConsole, type ConsoleBench } from '../support/console.ts';
import { sendHead, type RawAnswer } from '../support/raw-request.ts';

/** What an answer to hostile bytes may cost, and how large it may be. */
const MOST = { processorMs: 150, memoryBytes: 50_000_000, answerBytes: 64_000 };

interface Form {
  readonly path: string;
  /** The names of its fields; none if it reads no body. */
  readonly fields: readonly string[];
}

/** Every form of the console, by its route. */
const FORMS: Readonly<Record<string, readonly Form[]>> = {
  '/login': [{ path: '/login', fields: ['token', 'to'] }],
  '/logout': [{ path: '/logout', fields: [] }],
  '/recipients/:id/:operation': OPERATIONS.map((operation) => ({
    path: `/recipients/ana/${operation.name}`,
    fields: fieldsOf(operation).map(({ name }) => name),
  })),
  '/dead-letters/preview': [{ path: '/dead-letters/preview', fields: ['verb', ...Object.keys(TAKE.shape)] }],
  '/dead-letters/runs': [
    { path: '/dead-letters/runs', fields: ['verb', 'count', 'typed', ...Object.keys(TAKE.shape)] },
  ],
  '/dead-letters/runs/:id/stop': [{ path: '/dead-letters/runs/x/stop', fields: [] }],
};
/** Pages by their addresses, with the fields that they read there. */
const ADDRESSES: readonly Form[] = [
  { path: '/', fields: [] },
  { path: '/search', fields: ['q'] },
  { path: '/what-if', fields: ['rules', 'gap', 'category', 'recipient'] },
  { path: '/audit', fields: ['before'] },
  { path: '/login', fields: ['to'] },
  { path: '/recipients/ana', fields: ['range', 'done', 'count'] },
  { path: '/dead-letters', fields: ['page', ...Object.keys(FILTER.shape)] },
  { path: '/dead-letters/one', fields: ['id', 'shard'] },
];

interface Hostile {
  readonly what: string;
  readonly body: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
}

const FORM_TYPE = 'application/x-www-form-urlencoded';
const names = (count: number) => Array.from({ length: count }, (_, at) => `n${at}=`).join('&');

/** Bodies that no browser sends to this form, of up to so many bytes and beyond. */
function* hostileBodies({ fields }: Form, bytes: number): Generator<Hostile> {
  yield { what: '110,000 names', body: names(110_000) };
  yield { what: 'names of all bytes', body: names(110_000).slice(0, bytes) };
  yield { what: '299 names', body: names(299) };
  yield { what: 'one name many times', body: 'a&'.repeat(bytes / 2) };
  yield { what: 'a megabyte of one name', body: 'a&'.repeat(500_000) };
  yield { what: 'names of objects', body: '__proto__=1&constructor=1&toString=1&hasOwnProperty=1' };
  yield { what: 'a long name', body: `${'n'.repeat(bytes - 2)}=1` };
  yield { what: 'bytes that are no text', body: new Uint8Array(bytes).fill(0xff) };
  yield { what: 'zeros', body: new Uint8Array(bytes) };
  yield { what: 'broken escapes', body: '%zz%=%'.repeat(bytes / 6) };
  for (const field of ['unknown', ...fields]) {
    const room = bytes - field.length - 1;
    for (const text of ['x', ',', '1/1s,', '{"a":[', '%00']) {
      const many = text.repeat(room / text.length);
      yield { what: `${field}, ${many.length} of ${text}`, body: `${field}=${many}` };
    }
    yield { what: `${field} 290 times`, body: `${field}=x&`.repeat(290) };
  }
  const json = '{"a":[' + '[],'.repeat(bytes / 4) + '0]}';
  for (const type of [
    'application/json',
    'multipart/form-data',
    'multipart/form-data; boundary=b',
    'text/plain',
    ';;=',
    'x'.repeat(8_000),
  ]) {
    yield { what: `type ${type.slice(0, 40)}`, body: json.slice(0, bytes), headers: { 'content-type': type } };
  }
  yield { what: 'junk as gzip', body: json.slice(0, bytes), headers: { 'content-encoding': 'gzip' } };
  const single = { 'transfer-encoding': 'chunked' };
  yield { what: 'single bytes', body: `${'1\r\na\r\n'.repeat(bytes)}0\r\n\r\n`, headers: single };
}

interface Cost {
  readonly answer: RawAnswer;
  readonly processorMs: number;
  readonly memoryBytes: number;
}

/** The answer, and what it cost this process, where the console and its client are. */
async function costOf(ask: () => Promise<RawAnswer>): Promise<Cost> {
  const memory = () => {
    const { heapUsed, external } = process.memoryUsage();
    return heapUsed + external;
  };
  const [before, beforeBytes] = [process.threadCpuUsage(), memory()];
  const answer = await ask();
  const { user, system } = process.threadCpuUsage(before);
  return { answer, processorMs: (user + system) / 1_000, memoryBytes: memory() - beforeBytes };
}

/** What is wrong with an answer to hostile bytes; empty if nothing is. */
function wrongWith({ answer, processorMs, memoryBytes }: Cost, isRead: boolean): string[] {
  const { status, text, head } = answer;
  const isRefused = status >= 400 && status < 500;
  return [
    ...(isRefused || (!isRead && status === 303) ? [] : [`status ${status}`]),
    ...(status === 401 || /^location: \/login\?/im.test(head) ? ['it did not reach its form'] : []),
    ...(processorMs <= MOST.processorMs ? [] : [`${processorMs.toFixed(0)} ms of processor time`]),
    ...(memoryBytes <= MOST.memoryBytes ? [] : [`${memoryBytes} bytes of memory`]),
    ...(text.length <= MOST.answerBytes ? [] : [`an answer of ${text.length} characters`]),
  ];
}

async function openForOlga(): Promise<ConsoleBench & { readonly cookie: string }> {
  const bench = await openConsole({ CONSOLE_LOGIN: 'true' }, { olga: ['operate'] });
  const cookie = `pushpacer_console=${bench.secrets['olga'] ?? ''}`;
  for (const { path } of Object.values(FORMS).flat()) {
    const { status, text } = await bench.post(path, {}, { cookie }); // also makes the process warm
    if (status === 401 || status === 404) throw new Error(`expected a form at ${path}, found ${status} ${text}`);
  }
  return { ...bench, cookie };
}

const faultsIn = ({ lines }: ConsoleBench) => lines.filter((line) => /"level":"(error|fatal)"/.test(line));

beforeEach(() => {
  globalThis.gc?.();
});

it('has a form here for each route that takes one', () => {
  const tokens = { find: () => undefined };
  const options = {
    tokens,
    refusals: { count: () => undefined },
    host: 'x',
    login: true,
    readOnly: false,
    isSecure: false,
  };
  const parts = { log: createLog('silent') } as ConsoleParts; // no request comes to them
  const { routes } = createConsoleApp(parts, createSessions(options));
  const taking = routes.filter(({ method }) => method !== 'GET' && method !== 'ALL');
  expect([...new Set(taking.map(({ path }) => path))].sort()).toEqual(Object.keys(FORMS).sort());
});

it.each(Object.entries(FORMS))('hostile bodies cost little at %s', async (_, forms) => {
  const bench = await openForOlga();
  const wrong: string[] = [];
  let sent = 0;
  for (const form of forms) {
    for (const { what, body, headers = {} } of hostileBodies(form, form.path === '/login' ? 8_192 : 65_536)) {
      const length = 'transfer-encoding' in headers ? {} : { 'content-length': Buffer.byteLength(body) };
      const own = {
        'content-type': FORM_TYPE,
        'sec-fetch-site': 'same-origin',
        cookie: bench.cookie,
        ...length,
        ...headers,
      };
      const cost = await costOf(async () => {
        const request = await sendHead(bench.url, `POST ${form.path}`, own);
        request.write(body);
        const [answer, alive] = await Promise.all([request.answer(), bench.get('/healthz')]);
        request.leave();
        if (alive.status !== 200) throw new Error(`healthz: ${alive.status}`);
        return answer;
      });
      wrong.push(...wrongWith(cost, form.fields.length > 0).map((each) => `${form.path}: ${what}: ${each}`));
      sent++;
    }
  }
  expect(wrong).toEqual([]);
  expect(sent).toBeGreaterThan(20 * forms.length);
  expect(faultsIn(bench)).toEqual([]);
});

it('hostile addresses cost little', async () => {
  const bench = await openForOlga();
  // The list links each reason, with the filter that is in its address.
  await addDead(
    bench.deadQueue,
    Object.fromEntries(DEAD_LETTER_REASONS.map((reason) => [reason, deadLetter(reason, { reason })])),
  );
  const wrong: string[] = [];
  for (const { path, fields } of [...ADDRESSES, ...Object.values(FORMS).flat()]) {
    for (const { what, body, headers } of hostileBodies({ path, fields }, 12_000)) {
      if (typeof body !== 'string' || headers !== undefined) continue;
      const query = encodeURI(body).replaceAll('%25', '%').slice(0, 14_000);
      const cost = await costOf(async () => {
        const request = await sendHead(bench.url, `GET ${path}?${query}`, { cookie: bench.cookie });
        return request.answer();
      });
      const { status } = cost.answer;
      const isFine = status < 400 && !/^location: \/login\?/im.test(cost.answer.head);
      const found = wrongWith(cost, true).filter((each) => !(isFine && each.startsWith('status')));
      wrong.push(...found.map((each) => `${path}: ${what}: ${each}`));
    }
  }
  expect(wrong).toEqual([]);
  expect(faultsIn(bench)).toEqual([]);
});
