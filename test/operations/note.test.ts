import { expect, it } from 'vitest';
import { main } from '../../scripts/recipient.ts';
import { createAudit } from '../../src/operations/audit.ts';
import { openApi } from '../support/api.ts';
import { runMain } from '../support/command.ts';
import { openConsole } from '../support/console.ts';
import { connectRedis, queueEnv } from '../support/redis.ts';

const ID = 'teacher ü/7';
const PATH = `recipients/${encodeURIComponent(ID)}`;

it('a note is written in one place and seen in all, until it is removed', async () => {
  const api = await openApi();
  const { prefix } = api;
  const call: typeof api.call = (...args) => api.call(...args);
  const { get, post } = await openConsole({ QUEUE_PREFIX: prefix });
  const redis = connectRedis();
  const audit = createAudit(redis, prefix);
  const recipient = (...args: string[]) => runMain(main, args, queueEnv(prefix));
  const look = async () => (await call('GET', `/v1/${PATH}`)).body['note'];
  const shown = async () => (await get(`/${PATH}`)).text;
  expect([await look(), await shown()]).toEqual([undefined, expect.not.stringContaining('Remove the note')]);

  expect((await recipient('note', ID, 'call <b>first</b>')).stdout).toBe(`noted about ${ID}: call <b>first</b>\n`);
  expect(await look()).toMatchObject({ text: 'call <b>first</b>' });
  expect(await look()).toHaveProperty('by', expect.stringMatching(/ \(terminal\)$/));
  expect(await shown()).toContain('call &lt;b&gt;first&lt;/b&gt; (');
  const [keyTtl] = await Promise.all((await redis.keys(`${prefix}:note:*`)).map((key) => redis.ttl(key)));
  expect(keyTtl).toBeGreaterThan(365 * 86_400);

  const would = await call('POST', `/v1/${PATH}/note?preview=true`, { body: { text: 'moved' } });
  expect(would.body).toMatchObject({ would: 'It is noted: moved', moves: 0 });
  expect((await call('POST', `/v1/${PATH}/note`, { body: { text: 'moved' } })).body).toMatchObject({
    did: `noted about ${ID}, in place of the note before: moved`,
    wasNoted: true,
  });
  expect((await recipient('show', ID)).stdout).toMatch(/^note +moved \(all, 20\d\d-.*Z\)$/m);

  expect((await get(`/${PATH}/unnote`)).text).toContain('The note is removed.');
  expect((await post(`/${PATH}/unnote`)).location).toBe(`/${PATH}?done=unnote&count=0`);
  expect(JSON.parse((await recipient('show', ID, '--json')).stdout)).not.toHaveProperty('note');
  expect(await look()).toBeUndefined();
  expect((await recipient('note', ID, '--clear', '--json')).stdout).toContain('"wasNoted":false');
  expect((await recipient('note', ID)).stderr).toContain('TEXT: expected');
  expect((await call('POST', `/v1/${PATH}/note`, { body: {} })).body).toMatchObject({
    status: 422,
    faults: [{ path: 'text' }],
  });
  expect((await get(`/${PATH}`)).text).toMatch(/<input name="text"[^>]* required/);
  expect(await audit.read({ count: 9 })).toMatchObject([
    { action: 'recipient unnote', on: ID },
    { who: 'local', action: 'recipient unnote' },
    { who: 'all', action: 'recipient note', facts: { text: 'moved' } },
    { action: 'recipient note', facts: { text: 'call <b>first</b>' } },
  ]);
});
