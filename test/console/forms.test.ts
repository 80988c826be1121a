import { expect, it, onTestFinished, vi } from 'vitest';
import { revokeToken } from '../../api/tokens.ts';
import { createTurns } from '../../console/pages/what-if.ts';
import { createAudit } from '../../src/operations/audit.ts';
import { OPERATIONS } from '../../src/operations/catalogue.ts';
import { addDead, deadIdsIn, manyLetters } from '../dead-letters/letters.ts';
import { openConsole, type ConsoleBench } from '../support/console.ts';
import { sendHead, type RawRequest } from '../support/raw-request.ts';
import { waitFor } from '../support/wait.ts';

const LOGIN = { CONSOLE_LOGIN: 'true' };
const FORM = { 'content-type': 'application/x-www-form-urlencoded', 'sec-fetch-site': 'same-origin' };
type Bench = Pick<ConsoleBench, 'url' | 'secrets' | 'lines'>;

const cookieOf = ({ secrets }: Bench, name: string) => ({ cookie: `pushpacer_console=${secrets[name] ?? ''}` });
const faultsIn = ({ lines }: Bench) => lines.filter((line) => /"level":"(error|fatal)"/.test(line));

/** The head of a form, and the first byte of its body. The console has begun to answer. */
async function sendHalf({ url }: Bench, path: string, body: string, headers = {}): Promise<RawRequest> {
  const own = { ...FORM, 'content-length': Buffer.byteLength(body), expect: '100-continue', ...headers };
  const request = await sendHead(url, `POST ${path}`, own);
  request.write(body.slice(0, 1));
  return request;
}

it('does nothing for a form whose token was revoked before it had come whole', async () => {
  const forms = [
    ...OPERATIONS.map(({ name }): [string, string] => [`/recipients/ana/${name}`, 'for=2h&reason=exam']),
    ['/dead-letters/preview', 'verb=discard&pick=0:n0'],
    ['/dead-letters/runs', 'verb=discard&pick=0:n0'],
    ['/dead-letters/runs', 'verb=replay&all=true'],
  ] as const;
  const tokens = Object.fromEntries(forms.map((_, place) => [`olga-${place}`, ['operate']] as const));
  const bench = await openConsole(LOGIN, tokens);
  const { get, deadQueue, connection, prefix, tokensFile } = bench;
  await addDead(deadQueue, manyLetters(2));
  const sent = forms.map(([path, body], place) => sendHalf(bench, path, body, cookieOf(bench, `olga-${place}`)));
  const half = await Promise.all(sent);
  for (const name of Object.keys(tokens)) await revokeToken(tokensFile, name);
  for (const name of Object.keys(tokens)) {
    await waitFor(async () => expect((await get('/audit', cookieOf(bench, name))).status).toBe(303));
  }
  for (const [place, [path, body]] of forms.entries()) {
    half[place]?.write(body.slice(1));
    const { status, text } = (await half[place]?.answer()) ?? {};
    expect([path, status, text]).toEqual([path, 401, 'your login has ended: log in again\n']);
  }
  expect(await createAudit(connection, prefix).read({ count: 10 })).toEqual([]);
  expect(await deadIdsIn(deadQueue)).toEqual(['n0', 'n1']);
});

it('says before it reads a form that it is too large, of another kind, or of unknown length', async () => {
  const bench = await openConsole(LOGIN, { olga: ['operate'] });
  const cookie = cookieOf(bench, 'olga');
  const answerTo = async (path: string, headers: Readonly<Record<string, string | number>>) => {
    const { status, text } = await (await sendHead(bench.url, `POST ${path}`, { ...FORM, ...headers })).answer();
    return [status, text];
  };
  expect(await answerTo('/login', { 'content-length': 8_193 })).toEqual([413, 'this form has at most 8192 bytes\n']);
  for (const path of ['/login', '/recipients/ana/block', '/dead-letters/preview', '/dead-letters/runs']) {
    const tooLarge = await answerTo(path, { ...cookie, 'content-length': 65_537 });
    expect([path, tooLarge[0]]).toEqual([path, 413]);
    for (const type of ['application/json', 'multipart/form-data', 'multipart/form-data; boundary=x', ';;', '']) {
      const [status] = await answerTo(path, { ...cookie, 'content-type': type, 'content-length': 10 });
      expect([path, type, status]).toEqual([path, type, 415]);
    }
    const [status] = await answerTo(path, { ...cookie, 'transfer-encoding': 'chunked' });
    expect([path, status]).toEqual([path, 411]);
  }
  expect(faultsIn(bench)).toEqual([]);
});

it('refuses a form that does not come to its end within 30 s, and ends its connection', async () => {
  const bench = await openConsole(LOGIN, { olga: ['operate'] });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'], shouldAdvanceTime: true });
  onTestFinished(() => void vi.useRealTimers());
  const half = await Promise.all(
    ['/login', '/recipients/ana/block'].map((path) => sendHalf(bench, path, 'a=1', cookieOf(bench, 'olga'))),
  );
  await vi.advanceTimersByTimeAsync(29_000);
  for (const request of half) request.write('='); // it comes byte by byte
  const other = await sendHalf(bench, '/login', 'a=1');
  other.write('=1');
  expect((await other.answer()).status).toBe(403);
  await vi.advanceTimersByTimeAsync(1_100);
  for (const request of half) {
    const { status, text } = await request.answer();
    expect([status, text]).toEqual([408, 'the form did not come whole within 30 s\n']);
    await request.ended;
  }
});

it('counts the fields of a form and of an address before it looks at them', async () => {
  const bench = await openConsole(LOGIN, { olga: ['operate'] });
  const cookie = cookieOf(bench, 'olga');
  const fields = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`n${at}`, '']));
  expect((await bench.post('/login', fields(11))).text).toBe('this form has at most 10 fields\n');
  expect((await bench.post('/recipients/ana/block', fields(301), cookie)).text).toBe(
    'this form has at most 300 fields\n',
  );
  const query = new URLSearchParams(fields(301)).toString();
  for (const path of ['/dead-letters', '/what-if', '/recipients/ana/block', '/dead-letters/preview']) {
    const { status, text } = await bench.get(`${path}?${query}`, cookie);
    expect([path, status, text]).toEqual([path, 400, 'an address has at most 300 fields\n']);
  }
});

it('gives up the slowest logins when too many have not come whole, so that none of them keeps anybody out', async () => {
  const bench = await openConsole(LOGIN, { vera: ['read'] });
  const first = await Promise.all(Array.from({ length: 20 }, () => sendHalf(bench, '/login', 'token=x')));
  const later = await Promise.all(Array.from({ length: 100 }, () => sendHalf(bench, '/login', 'token=x')));
  for (const request of first) expect((await request.answer()).status).toBe(408);
  await Promise.all(first.map(({ ended }) => ended));
  expect((await bench.post('/login', { token: bench.secrets['vera'] ?? '' })).status).toBe(303);
  const last = later.at(-1);
  last?.write('oken=x');
  expect((await last?.answer())?.status).toBe(403);
});

it('has four dear pages of a user under way at a time, and those of another user all the same', async () => {
  const bench = await openConsole(LOGIN, { olga: ['operate'], otto: ['operate'] });
  const { get } = bench;
  const [olga, otto] = [cookieOf(bench, 'olga'), cookieOf(bench, 'otto')];
  const half = await Promise.all(
    Array.from({ length: 4 }, () => sendHalf(bench, '/recipients/ana/block', 'a=1', olga)),
  );
  const dear = ['/search?q=ana', '/what-if', '/recipients/ana', '/recipients/ana/block?for=2h', '/notifications/msg-1'];
  for (const path of [...dear, '/dead-letters', '/dead-letters/preview?verb=replay&all=true']) {
    const { status, headers } = await get(path, olga);
    expect([path, status, headers.get('retry-after')]).toEqual([path, 429, '1']);
    expect([path, (await get(path, otto)).status]).not.toEqual([path, 429]);
  }
  for (const path of ['/', '/audit', '/healthz']) expect([path, (await get(path, olga)).status]).toEqual([path, 200]);
  half[0]?.write('=1');
  expect((await half[0]?.answer())?.status).toBe(400);
  expect((await get('/search?q=ana', olga)).status).toBe(200);
  half[1]?.leave();
  await waitFor(async () => expect((await get('/what-if', olga)).status).toBe(200));
  expect(faultsIn(bench)).toEqual([]);
});

it('tries no limits for a client that has left before its turn', async () => {
  const turns = createTurns();
  const [first, leaving] = [Promise.withResolvers<string>(), new AbortController()];
  const { signal } = new AbortController();
  const done: string[] = [];
  const all = [
    turns(() => first.promise, signal),
    turns(() => Promise.resolve(done.push('left')), leaving.signal),
    turns(() => Promise.resolve(done.push('stayed')), signal),
  ];
  leaving.abort();
  first.resolve('first');
  const ends = (await Promise.allSettled(all)).map(({ status }) => status);
  expect([ends, done]).toEqual([['fulfilled', 'rejected', 'fulfilled'], ['stayed']]);
});

it('ends the work on limits for a client that leaves meanwhile, and it is no fault', async () => {
  const leaving = new AbortController();
  const turn = createTurns()((given) => {
    leaving.abort('as the request of a client that left'); // a text, no error
    return Promise.resolve().then(() => given.throwIfAborted());
  }, leaving.signal);
  await expect(turn).rejects.toMatchObject({ status: 408 });
});

it('is no fault of the console what names a client makes up, nor that it leaves', async () => {
  const bench = await openConsole(LOGIN, { olga: ['operate'] });
  const cookie = cookieOf(bench, 'olga');
  for (const name of ['constructor', '__proto__', 'toString', '%', 'x/../y']) {
    expect([name, (await bench.get(`/assets/${name}`)).status]).not.toEqual([name, 500]);
  }
  for (const name of ['constructor', '__proto__', 'toString']) {
    for (const path of ['/dead-letters?', '/what-if?rules=1/1h&', '/recipients/ana/block?', '/recipients/ana?range=']) {
      expect([path, (await bench.get(`${path}${name}=1`, cookie)).status]).not.toEqual([path, 500]);
    }
    expect((await bench.post(`/recipients/ana/${name}`, {}, cookie)).status).toBe(404);
    expect((await bench.post('/recipients/ana/block', { [name]: '1' }, cookie)).status).toBe(400);
  }
  for (const path of ['/login', '/recipients/ana/block', '/dead-letters/runs']) {
    const request = await sendHalf(bench, path, 'a=1', cookie);
    request.leave();
    await request.ended;
  }
  await bench.get('/healthz');
  expect(faultsIn(bench)).toEqual([]);
});

it('ends a connection with its answer if it has sent a body where none belongs', async () => {
  const { url } = await openConsole();
  const request = await sendHead(url, 'GET /healthz', { 'content-length': 10 });
  expect((await request.answer()).head).toMatch(/^connection: close$/im);
});
