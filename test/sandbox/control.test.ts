import { once } from 'node:events';
import { request } from 'node:http';
import { expect, it, onTestFinished, test } from 'vitest';
import { pushId } from '../../src/notification/device.ts';
import { MAX_SCRIPT_BYTES, serveControl } from '../../sandbox/control.ts';
import type { SandboxOptions } from '../../sandbox/sandbox.ts';
import { openSandbox } from '../support/sandbox.ts';
import { connectApns } from './apns-client.ts';
import { connectFcm } from './fcm-client.ts';

async function openControl(options: SandboxOptions = {}, name?: string) {
  const sandbox = await openSandbox(options);
  const control = await serveControl(sandbox, { port: 0, host: '127.0.0.1', name });
  onTestFinished(() => control.close());
  const url = `http://127.0.0.1:${control.port}`;
  const call = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(`${url}${path}`, init);
    const text = await response.text();
    const json =
      response.headers.get('content-type') === 'application/json' ? (JSON.parse(text) as unknown) : undefined;
    return { status: response.status, text, json, allow: response.headers.get('allow') };
  };
  const put = (script: unknown) =>
    call('/answers', { method: 'PUT', body: typeof script === 'string' ? script : JSON.stringify(script) });
  return { sandbox, url, call, put };
}

it('sets, shows and clears the script', async () => {
  const { sandbox, call, put } = await openControl();
  const answers = [{ token: 'ab', status: 503, times: 2 }, { reason: 'Unregistered' }];
  expect(await put({ answers })).toMatchObject({ status: 200, json: { answers } });
  const fcm = await connectFcm(sandbox);
  expect((await fcm.send({ token: 'ab' })).status).toBe(503);
  expect((await call('/answers')).json).toEqual({ answers: [{ token: 'ab', status: 503, times: 1 }, answers[1]] });
  expect(await call('/answers', { method: 'DELETE' })).toMatchObject({ status: 204, text: '' });
  expect((await call('/answers')).json).toEqual({ answers: [] });
  expect((await fcm.send({ token: 'ab' })).status).toBe(200);
});

it('refuses a bad script with every fault, and changes nothing', async () => {
  const { call, put } = await openControl({ answers: [{ status: 503 }] });
  const refused = await put({
    answers: [
      { platform: 'fcm', status: 410 },
      { times: 0, answer: 'hang' },
    ],
  });
  expect(refused.status).toBe(400);
  expect(refused.json).toMatchObject({
    error: expect.stringContaining('answers[0].status: expected a status that FCM answers') as string,
    faults: [
      { path: 'answers[0].status', found: '410' },
      { path: 'answers[1].times', expected: 'at least 1', found: '0' },
    ],
  });
  expect(await put('{"answers"')).toMatchObject({ status: 400, json: { faults: [{ path: '' }] } });
  expect(await put(' '.repeat(MAX_SCRIPT_BYTES + 1))).toMatchObject({ status: 413 });
  expect((await call('/answers')).json).toEqual({ answers: [{ status: 503 }] });
});

it('shows the journal, by what is asked, and forgets it', async () => {
  const { sandbox, call } = await openControl({ answers: [{ platform: 'fcm', status: 503, times: 1 }] });
  const fcm = await connectFcm(sandbox);
  const apns = await connectApns(sandbox);
  const tag = pushId('msg-1', 1);
  await fcm.send({ token: 'Ab', notification: { title: 'One' }, android: { notification: { tag } } });
  await fcm.send({ token: 'Ab', notification: { title: 'Two' }, android: { notification: { tag } } });
  await apns.post({ token: 'AB01', headers: { 'apns-id': pushId('msg-1', 0).toUpperCase() } });
  await apns.post({ token: 'cd02' });
  const show = async (query: string) => {
    const { entries } = (await call(`/journal${query}`)).json as { entries: { token: string; at: number }[] };
    return entries.map(({ token }) => token);
  };
  const whole = (await call('/journal')).json as { entries: { at: number }[] };
  expect(whole).toMatchObject({
    dropped: 0,
    entries: [
      { platform: 'fcm', token: 'Ab', accepted: false, status: 503, reason: 'UNAVAILABLE', title: 'One' },
      { platform: 'fcm', accepted: true, status: 200, title: 'Two' },
      { platform: 'apns', token: 'ab01', accepted: true, title: 'Room 12', body: 'Forms are due' },
      { platform: 'apns', token: 'cd02' },
    ],
  });
  expect(await show('?platform=fcm')).toEqual(['Ab', 'Ab']);
  expect(await show('?token=AB01')).toEqual(['ab01']);
  expect(await show('?token=ab')).toEqual([]);
  expect(await show('?accepted=false')).toEqual(['Ab']);
  expect(await show('?id=msg-1')).toEqual(['Ab', 'Ab', 'ab01']);
  expect(await show('?id=msg-1&platform=apns')).toEqual(['ab01']);
  expect(await show(`?since=${whole.entries[1]?.at}`)).toEqual(['ab01', 'cd02']);
  expect(await show('?since=2020-01-01T00:00:00Z')).toHaveLength(4);
  expect(await show('?since=2120-01-01T00:00:00Z')).toEqual([]);
  expect(await call('/journal', { method: 'DELETE' })).toMatchObject({ status: 204 });
  expect((await call('/journal')).json).toEqual({ entries: [], dropped: 0 });
});

it('keeps only the latest requests, and says how many it dropped', async () => {
  const { sandbox, call } = await openControl({ keep: 2 });
  const fcm = await connectFcm(sandbox);
  for (const token of ['a', 'b', 'c', 'd', 'e']) await fcm.send({ token });
  expect((await call('/journal')).json).toMatchObject({ dropped: 3, entries: [{ token: 'd' }, { token: 'e' }] });
});

test.each([
  [
    'recipient=teacher-42',
    'the query: expected one of since, platform, token, id, accepted as a parameter, found "recipient"',
  ],
  ['since=yesterday', 'the query: since: expected epoch milliseconds or an RFC 3339 date-time, found "yesterday"'],
  ['platform=sms', 'the query: platform: expected "apns" or "fcm" or "webpush", found "sms"'],
  ['accepted=yes', 'the query: accepted: expected "true" or "false", found "yes"'],
])('GET /journal?%s is refused', async (query, error) => {
  const { call } = await openControl();
  expect(await call(`/journal?${query}`)).toMatchObject({ status: 400, json: { error } });
});

it('is healthy, and names its paths and methods', async () => {
  const { call } = await openControl();
  expect(await call('/healthz')).toMatchObject({ status: 200, text: 'ok\n' });
  expect((await call('/healthz', { method: 'HEAD' })).status).toBe(200);
  expect((await call('/')).json).toMatchObject({ error: 'expected one of the paths /answers, /journal, /healthz' });
  expect((await call('/constructor')).status).toBe(404);
  expect(await call('/answers', { method: 'POST' })).toMatchObject({ status: 405, allow: 'GET, PUT, DELETE' });
});

it('answers only to its own names, because a web page can have another one point here', async () => {
  const { url } = await openControl({}, 'sandbox');
  const statusFor = async (host: string): Promise<number | undefined> => {
    const outgoing = request(`${url}/journal`, { headers: { host } }).end();
    const [response] = (await once(outgoing, 'response')) as [{ statusCode?: number; resume(): void }];
    response.resume();
    return response.statusCode;
  };
  for (const host of ['127.0.0.1:80', 'localhost', '[::1]:80', 'sandbox:80']) expect(await statusFor(host)).toBe(200);
  for (const host of ['evil.example', '127.0.0.1.evil.example']) expect(await statusFor(host)).toBe(403);
});

it('ends with clients still connected, and rejects where its port is taken', async () => {
  const sandbox = await openSandbox();
  const control = await serveControl(sandbox, { port: 0, host: '127.0.0.1' });
  await (await fetch(`http://127.0.0.1:${control.port}/healthz`)).text();
  await expect(serveControl(sandbox, { port: control.port, host: '127.0.0.1' })).rejects.toThrow('EADDRINUSE');
  await control.close();
  await expect(fetch(`http://127.0.0.1:${control.port}/healthz`)).rejects.toThrow();
});
