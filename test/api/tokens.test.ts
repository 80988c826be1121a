import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { main } from '../../api/token.ts';
import { addToken, openTokens, parseTokens, readTokens, revokeToken } from '../../api/tokens.ts';
import { formatFault, type InputError } from '../../src/domain/faults.ts';
import { openApi } from '../support/api.ts';
import { jsonOf, outputOf, runMain } from '../support/command.ts';
import { temporaryFolder } from '../support/program.ts';
import { makeNotification } from '../support/push.ts';
import { waitFor } from '../support/wait.ts';

const NAMED = { name: 'school-app', sha256: 'a'.repeat(64), scopes: ['send'], createdAt: '2026-11-21T08:00:00Z' };

function faultsOf(text: string): string[] {
  try {
    parseTokens(text, 'tokens.json');
    return [];
  } catch (error) {
    return (error as InputError).faults.map(formatFault);
  }
}

describe('a request', () => {
  it('needs a token, with the scope for what it does', async () => {
    const api = await openApi({}, { send: { scopes: ['send'] }, read: { scopes: ['read'] } });
    const none = await api.call('GET', '/v1/notifications/x', { secret: '' });
    expect([none.status, none.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
    const wrong = await api.call('GET', '/v1/notifications/x', { secret: `pp_${'a'.repeat(43)}` });
    expect([wrong.status, wrong.headers.get('www-authenticate')]).toEqual([401, 'Bearer error="invalid_token"']);
    const { send, read } = api.secrets;
    const statusOf = async (method: string, path: string, secret: string) =>
      (await api.call(method, path, { secret, ...(method === 'POST' && { body: [] }) })).status;
    const rows: readonly (readonly [string, string, number, number])[] = [
      ['POST', '/v1/notifications', 422, 403],
      ['GET', '/v1/notifications/x', 403, 404],
      ['DELETE', '/v1/notifications/x', 404, 403],
      ['DELETE', '/v1/recipients/x/notifications?cancellationKey=k', 200, 403],
      ['POST', '/v1/notifications/x/retract', 422, 403],
      ['POST', '/v1/recipients/x/retract', 422, 403],
      ['GET', '/v1/recipients/x', 403, 200],
    ];
    for (const [method, path, ofSend, ofRead] of rows) {
      expect([path, await statusOf(method, path, send), await statusOf(method, path, read)]).toEqual([
        path,
        ofSend,
        ofRead,
      ]);
    }
    for (const path of ['/healthz', '/readyz', '/openapi.json'])
      expect((await api.call('GET', path, { secret: '' })).status).toBe(200);
    expect((await api.call('GET', '/v1/unknown')).status).toBe(404);
    const put = await api.call('PUT', '/v1/notifications/x');
    expect([put.status, put.headers.get('allow')]).toEqual([405, 'GET, DELETE']);
  });

  it('with a valid token is never refused for the failures of others at its address', async () => {
    const api = await openApi();
    const statuses: number[] = [];
    for (let tries = 0; tries < 25; tries++) {
      statuses.push((await api.call('GET', '/v1/notifications/x', { secret: 'guess' })).status);
    }
    expect(statuses).toEqual([...Array<number>(20).fill(401), ...Array<number>(5).fill(429)]);
    expect((await api.call('GET', '/v1/notifications/x')).status).toBe(404);
  });
});

it('a stream of outcomes ends when its token is revoked', async () => {
  const api = await openApi({}, { reader: { scopes: ['read'] } });
  const headers = { authorization: `Bearer ${api.secrets.reader}` };
  const response = await fetch(`${api.url}/v1/outcomes`, { headers });
  const read = response.text();
  expect(await revokeToken(api.tokensFile, 'reader')).toBe(true);
  const [connected, last, ...more] = (await read).split('\n\n');
  expect(connected).toBe(': connected');
  expect(last).toMatch(/^event: problem\ndata: .*"code":"unauthorized".*revoked/);
  expect(more).toEqual(['']);
});

it('a stream of notifications ends when its token is revoked, and says that nothing more was added', async () => {
  const api = await openApi({}, { sender: { scopes: ['send'] } });
  const secret = api.secrets.sender;
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>();
  const writer = writable.getWriter();
  const write = () => writer.write(new TextEncoder().encode(`${JSON.stringify(makeNotification())}\n`));
  const asked = fetch(`${api.url}/v1/notifications`, {
    ...{ method: 'POST', body: readable, duplex: 'half' },
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/x-ndjson' },
  });
  await write();
  const reader = ((await asked).body as ReadableStream<Uint8Array> | null)?.getReader();
  const read = async () => new TextDecoder().decode((await reader?.read())?.value);
  expect(await read()).toContain('{"line":1,"result":"added"');
  expect(await revokeToken(api.tokensFile, 'sender')).toBe(true);
  await waitFor(async () => expect((await api.call('GET', '/v1/outcomes', { secret })).status).toBe(401));
  const sent = write().catch(() => undefined); // the server reads no more
  const last = JSON.parse(await read()) as Record<string, unknown>;
  expect(last).toMatchObject({ end: false, added: 1 });
  expect(last['problem']).toMatch(/revoked.*nothing more was added/);
  expect((await reader?.read())?.done).toBe(true);
  expect(await api.queue.getJobCountByTypes('prioritized')).toBe(1);
  await writer.abort().catch(() => undefined);
  await sent;
});

describe('the file', () => {
  it('has hashes alone, only its owner reads it, and a change is in force without a restart', async () => {
    const path = join(await temporaryFolder(), 'tokens.json');
    const secret = await addToken(path, { name: 'one', scopes: ['send'] });
    expect(await readFile(path, 'utf8')).not.toContain(secret.slice(3));
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    const book = await openTokens({ path, onRead: () => undefined, onFault: () => undefined });
    expect(book.find(secret)?.name).toBe('one');
    expect([secret.slice(0, -1), `${secret}a`, '', 'pp_'].map((each) => book.find(each))).toEqual(
      Array(4).fill(undefined),
    );
    const other = await addToken(path, { name: 'two', scopes: ['read'], maxWaiting: 10 });
    await waitFor(() => expect(book.find(other)).toMatchObject({ name: 'two', maxWaiting: 10 }));
    expect([await revokeToken(path, 'one'), await revokeToken(path, 'one')]).toEqual([true, false]);
    await waitFor(() => expect(book.find(secret)).toBeUndefined());
    expect(book.find(other)?.name).toBe('two');
    book.close();
  });

  it('that is wrong changes nothing, and names its faults without a hash', async () => {
    const path = join(await temporaryFolder(), 'tokens.json');
    const secret = await addToken(path, { name: 'one', scopes: ['send'] });
    const faults: unknown[] = [];
    const book = await openTokens({ path, onRead: () => undefined, onFault: (error) => faults.push(error) });
    await writeFile(path, '{"tokens": [');
    await waitFor(() => expect(faults.length).toBeGreaterThan(0));
    expect(book.find(secret)?.name).toBe('one');
    book.close();
    const wrong = { tokens: [NAMED, { ...NAMED, sha256: 'secret', scopes: ['all'] }] };
    expect(faultsOf(JSON.stringify(wrong))).toEqual([
      'tokens[1].sha256: expected 64 hexadecimal digits, found a string of 6 characters',
      'tokens[1].scopes[0]: expected "send" or "read" or "operate" or "limit", found "all"',
    ]);
    expect(faultsOf(JSON.stringify({ tokens: [NAMED, NAMED] }))).toEqual([
      'tokens[1].name: expected a name that no other token has, found school-app',
    ]);
    expect(await readTokens(`${path}.none`)).toEqual([]);
  });

  it('is not changed by two at once', async () => {
    const path = join(await temporaryFolder(), 'tokens.json');
    const names = Array.from({ length: 5 }, (_, number) => `token-${number}`);
    const added = await Promise.allSettled(names.map((name) => addToken(path, { name, scopes: ['send'] })));
    const done = added.filter(({ status }) => status === 'fulfilled').length;
    expect(done).toBeGreaterThan(0);
    expect(await readTokens(path)).toHaveLength(done);
  });
});

it('pushpacer token adds, lists and revokes', async () => {
  const API_TOKENS_FILE = join(await temporaryFolder(), 'tokens.json');
  const run = (...args: string[]) => runMain(main, args, { API_TOKENS_FILE });
  const secret = await outputOf(run('add', 'school-app', '--scope', 'read,send', '--max-waiting', '5000'));
  expect(secret).toMatch(/^pp_[\w-]{43}\n$/);
  expect(await run('add', 'school-app')).toMatchObject({
    code: 1,
    stderr: expect.stringContaining('no other token') as string,
  });
  expect(await run('add', 'b', '--scope', 'sent')).toMatchObject({ code: 2 });
  expect(await run('add', 'a b')).toMatchObject({ code: 2 });
  expect(await outputOf(run('list'))).toMatch(/school-app +send, read +5000/);
  const { tokens } = await jsonOf<{ tokens: object[] }>(run('list', '--json'));
  expect(Object.keys(tokens[0] ?? {})).toEqual(['name', 'scopes', 'maxWaiting', 'createdAt']);
  expect(await outputOf(run('revoke', 'school-app'))).toBe('revoked school-app\n');
  expect(await run('revoke', 'school-app')).toMatchObject({ code: 1 });
  expect(await outputOf(run('list'))).toMatch(/^no tokens in \/.*\n$/);
});
