import { readFile } from 'node:fs/promises';
import { request, type RequestOptions } from 'node:http';
import { describe, expect, it } from 'vitest';
import { CONSOLE_VARIABLES } from '../../src/config/variables.ts';
import type { Device } from '../../src/notification/notification.ts';
import { createAudit } from '../../src/operations/audit.ts';
import { createProducer } from '../../src/producer/producer.ts';
import { openConsole } from '../support/console.ts';
import { testTarget } from '../support/redis.ts';

const TOKENS = { olga: ['operate'], vera: ['read'], sam: ['send'] } as const;
const PRIVATE = ['/', '/search?q=x', '/audit', '/no-such-page'];

/** The status of a request with headers that `fetch` does not send. */
function asked(url: string, options: RequestOptions): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    request(url, options, (response) => resolve(response.resume().statusCode))
      .on('error', reject)
      .end();
  });
}

it('has a page for each link of its menu', async () => {
  const { get } = await openConsole();
  const menu = /<nav aria-label="Pages">[^]*?<\/nav>/.exec((await get('/')).text)?.[0] ?? '';
  const links = [...menu.matchAll(/href="([^"]+)"/g)].map(([, path = '']) => path);
  expect(links).toEqual(['/', '/search', '/dead-letters', '/what-if', '/audit']);
  for (const path of links) expect([path, (await get(path)).status]).toEqual([path, 200]);
});

it('names every key that the script knows at the foot of each page', async () => {
  const { get } = await openConsole();
  const script = await readFile('console/assets/console.js', 'utf8');
  const places = /const PLACES = \{([^}]*)\}/.exec(script)?.[1] ?? '';
  const known = ['/', ...[...places.matchAll(/(\w): '/g)].map(([, key]) => key)];
  expect(known.length).toBeGreaterThan(3);
  const foot = /<footer>[^]*<\/footer>/.exec((await get('/')).text)?.[0] ?? '';
  expect([...foot.matchAll(/<kbd>(.)<\/kbd>/g)].map(([, key]) => key)).toEqual(known);
});

describe('without a login, on the loopback', () => {
  it('everybody on this machine is an operator', async () => {
    const { get } = await openConsole();
    const { status, text } = await get('/');
    expect(status).toBe(200);
    expect(text).toContain('this machine');
    expect((await get('/login')).location).toBe('/');
  });

  it('answers to no other host name, which could lead here from a page of somebody else', async () => {
    const { url, get } = await openConsole();
    expect(await asked(`${url}/`, { headers: { host: 'evil.example' } })).toBe(421);
    expect((await get('/')).status).toBe(200);
  });

  it('changes nothing for a request from another site', async () => {
    const { post } = await openConsole();
    const headers: Record<string, string>[] = [
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'same-site' },
      { 'sec-fetch-site': 'none' },
    ];
    for (const each of headers) expect((await post('/logout', {}, each)).status).toBe(403);
    expect((await post('/logout')).status).toBe(303);
  });

  it('an old browser, without Sec-Fetch-Site, is known by its Origin', async () => {
    const { url } = await openConsole();
    const from = (headers: { readonly origin?: string }) => asked(`${url}/logout`, { method: 'POST', headers });
    expect(await from({})).toBe(403);
    expect(await from({ origin: 'https://evil.example' })).toBe(403);
    expect(await from({ origin: 'null' })).toBe(403);
    expect(await from({ origin: url })).toBe(303);
  });

  it('a read-only console has no operators', async () => {
    const { get, post } = await openConsole({ CONSOLE_READ_ONLY: 'true' });
    expect((await get('/')).text).toContain('read-only');
    expect((await post('/anything')).status).toBe(403);
  });
});

describe('with a login', () => {
  const LOGIN = { CONSOLE_LOGIN: 'true' };

  it('a stranger sees nothing but the login', async () => {
    const { get, post } = await openConsole(LOGIN, TOKENS);
    for (const path of PRIVATE) {
      const answer = await get(path);
      expect([path, answer.status, answer.text]).toEqual([path, 303, '']);
      expect(answer.location).toMatch(/^\/login/);
      expect((await get(path, { cookie: 'pushpacer_console=pp_guess' })).status).toBe(303);
    }
    expect((await post('/anything')).status).toBe(401);
    expect((await get('/login')).text).not.toContain('/audit');
  });

  it('an operator may act, a viewer may only look, and a token for sending may not even look', async () => {
    const { post, get, secrets } = await openConsole(LOGIN, TOKENS);
    const cookieOf = async (name: string): Promise<string> => {
      const { status, headers } = await post('/login', { token: secrets[name] ?? '', to: '/audit' });
      expect([name, status, headers.get('location')]).toEqual([name, 303, '/audit']);
      const cookie = headers.get('set-cookie') ?? '';
      expect(cookie).toMatch(/HttpOnly/);
      expect(cookie).toMatch(/SameSite=Strict/);
      return cookie.split(';')[0] ?? '';
    };
    const [operator, viewer] = [await cookieOf('olga'), await cookieOf('vera')];
    expect((await get('/', { cookie: operator })).text).toContain('olga (operator)');
    expect((await get('/', { cookie: viewer })).text).toContain('vera (viewer)');
    expect((await post('/anything', {}, { cookie: viewer })).status).toBe(403);
    expect((await post('/anything', {}, { cookie: operator })).status).toBe(404);
    const refused = await post('/login', { token: secrets['sam'] ?? '' });
    expect([refused.status, refused.headers.get('set-cookie')]).toEqual([403, null]);
  });

  it('leads to no other site after the login', async () => {
    const { post, secrets } = await openConsole(LOGIN, TOKENS);
    // A browser leaves tabs out of an address.
    for (const to of ['//evil.example', 'https://evil.example', '/\\evil.example', '/\t/evil.example', '']) {
      expect((await post('/login', { token: secrets['vera'] ?? '', to })).location).toBe('/');
    }
    const { location } = await post('/login', { token: secrets['vera'] ?? '', to: '/dead-letters?reason=stalled' });
    expect(location).toBe('/dead-letters?reason=stalled');
  });

  it('tells an address with many wrong tokens to wait, and still lets a right one in', async () => {
    const { post, secrets } = await openConsole(LOGIN, TOKENS);
    const texts: string[] = [];
    for (let tries = 0; tries < 12; tries++) texts.push((await post('/login', { token: `pp_wrong${tries}` })).text);
    expect(texts[0]).toContain('no token has this secret');
    expect(texts.at(-1)).toContain('too many attempts');
    expect((await post('/login', { token: secrets['vera'] ?? '' })).status).toBe(303);
  });

  it('is wanted beyond the loopback without being asked for', async () => {
    const { get } = await openConsole({ CONSOLE_HOST: '0.0.0.0' }, TOKENS);
    expect((await get('/')).location).toBe('/login');
  });
});

describe('pages', () => {
  it('load nothing from elsewhere, and run no script that is not theirs', async () => {
    const { get } = await openConsole();
    const { text, headers } = await get('/');
    const nonce = /nonce="([^"]+)"/.exec(text)?.[1] ?? '';
    expect(headers.get('content-security-policy')).toContain(`script-src 'nonce-${nonce}'`);
    expect(text).not.toMatch(/(src|href)="(https?:)?\/\//);
    expect((await get('/')).text).not.toContain(nonce);
    for (const [, path = ''] of text.matchAll(/(?:src|href)="(\/assets\/[^"]+)"/g)) {
      expect([path, (await get(path)).status]).toEqual([path, 200]);
    }
  });

  it('finds a notification and its recipient by id, and what waits by a cancellation key', async () => {
    const { get, prefix } = await openConsole();
    await using producer = createProducer({ ...testTarget(), prefix });
    const devices: Device[] = [{ platform: 'fcm', token: 'a-token-of-fcm' }];
    const base = { recipientId: 'ana', devices, alert: { title: 'A title', body: 'A text' } };
    await producer.enqueue({ ...base, id: 'msg-1', cancellationKey: 'exam-7', category: 'exams' });
    await producer.enqueue({ ...base, id: 'msg-2' });
    const ids = async (q: string) => {
      const { text } = await get(`/search?q=${encodeURIComponent(q)}`);
      expect(text).not.toMatch(/a-token-of-fcm|A title|A text/);
      return [
        ...new Set([...text.matchAll(/href="\/(?:notifications|recipients)\/([^"]+)"/g)].map(([, id]) => id)),
      ].sort();
    };
    expect(await ids('msg-1')).toEqual(['ana', 'msg-1']);
    expect(await ids('exam-7')).toEqual(['ana', 'msg-1']);
    expect(await ids('exams')).toEqual(['ana', 'msg-1']);
    expect(await ids('ana')).toEqual(['ana', 'msg-1', 'msg-2']);
    expect(await ids('nobody')).toEqual([]);
  });

  it('escapes whatever somebody wrote', async () => {
    const { get, connection, prefix } = await openConsole();
    const evil = `"><script>alert(1)</script>&'`;
    await createAudit(connection, prefix).write({ who: evil, action: evil, on: evil, facts: { [evil]: evil } });
    for (const path of ['/audit', `/search?q=${encodeURIComponent(evil)}`]) {
      const { text } = await get(path);
      expect(text).toContain('&lt;script&gt;alert(1)');
      expect(text).not.toContain('<script>alert');
    }
  });

  it('lists actions, the newest first, page by page', async () => {
    const { get, connection, prefix } = await openConsole();
    const audit = createAudit(connection, prefix);
    for (let index = 0; index < 60; index++)
      await audit.write({ who: 'olga', action: 'test', on: `r-${index}`, facts: { moved: index } });
    const ons = (text: string) => [...text.matchAll(/>(r-\d+)</g)].map(([, on]) => on);
    const first = await get('/audit');
    expect(ons(first.text)).toEqual(Array.from({ length: 50 }, (_, index) => `r-${59 - index}`));
    const next = /rel="next" href="([^"]+)"/.exec(first.text)?.[1] ?? '';
    expect(ons((await get(next)).text)).toEqual(Array.from({ length: 10 }, (_, index) => `r-${9 - index}`));
    expect((await get('/audit?before=x')).status).toBe(400);
  });

  it('say so while Redis is away', async () => {
    const { get } = await openConsole({ REDIS_URL: 'redis://127.0.0.1:9' });
    const { status, text } = await get('/');
    expect(status).toBe(503);
    expect(text).toContain('Redis does not answer');
    expect((await get('/healthz')).status).toBe(200);
  });
});

it('docs/console.md has every variable with its default', async () => {
  const text = await readFile('docs/console.md', 'utf8');
  const rows = [...text.matchAll(/^\| `([A-Z_]+)` +\| (\S*) +\| (.*?) +\|$/gm)].map(([, ...cells]) => cells);
  expect(rows).toEqual(
    CONSOLE_VARIABLES.map(({ name, default: value, meaning }) => [
      name,
      value === undefined ? '' : `\`${value}\``,
      meaning,
    ]),
  );
});
