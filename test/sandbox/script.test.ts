import { once } from 'node:events';
import { request } from 'node:http';
import { readFile } from 'node:fs/promises';
import { expect, it, onTestFinished, test } from 'vitest';
import { InputError } from '../../src/domain/faults.ts';
import { parseScript, parseScriptText } from '../../sandbox/answers.ts';
import { MAX_SCRIPT_BYTES, serveControl } from '../../sandbox/control.ts';
import { startSandbox, type Sandbox, type SandboxOptions } from '../../sandbox/sandbox.ts';
import { openSandbox } from '../support/sandbox.ts';
import { connectApns, connectFcm, messageBody } from './raw-client.ts';

/** Sends one alert to each token in turn, and gives the statuses. */
async function statusesOf(sandbox: Sandbox, platform: 'apns' | 'fcm', tokens: readonly string[]): Promise<number[]> {
  const apns = await connectApns(sandbox);
  const fcm = await connectFcm(sandbox);
  const all: number[] = [];
  for (const token of tokens) {
    const reply =
      platform === 'apns'
        ? await apns.ask({ headers: { ':path': `/3/device/${token}` } })
        : await fcm.ask({ body: messageBody({ token }) });
    all.push(reply.status);
  }
  return all;
}

test('the first entry that fits and is not used up decides', async () => {
  const sandbox = await openSandbox();
  sandbox.setAnswers([
    { platform: 'apns', token: 'AB', status: 503, times: 2 },
    { token: 'ab', status: 500, times: 1 },
    { platform: 'apns', token: 'cd', reason: 'Unregistered' },
    { status: 429, times: 1 },
  ]);
  expect(await statusesOf(sandbox, 'apns', ['ab', 'cd', 'ab', 'ab', 'ef', 'ab', 'cd'])).toEqual([
    ...[503, 410, 503, 500, 429, 200, 410],
  ]);
  expect(await statusesOf(sandbox, 'fcm', ['ab', 'cd'])).toEqual([200, 200]); // "times" counts for both platforms together
});

test('what is left of the script is a script again', async () => {
  const sandbox = await openSandbox();
  const forever = { token: 'cd', reason: 'UNREGISTERED' } as const;
  sandbox.setAnswers([{ status: 503, times: 1 }, { token: 'ab', status: 500, times: 3 }, forever]);
  await statusesOf(sandbox, 'fcm', ['cd', 'ab', 'ab']);
  expect(sandbox.answers()).toEqual([{ token: 'ab', status: 500, times: 1 }, forever]);
  sandbox.setAnswers(sandbox.answers());
  expect(await statusesOf(sandbox, 'fcm', ['ab', 'ab', 'cd'])).toEqual([500, 200, 404]);
  sandbox.setAnswers([]);
  expect(await statusesOf(sandbox, 'fcm', ['cd'])).toEqual([200]);
});

test('a request that is wrong by itself uses up no entry', async () => {
  const sandbox = await openSandbox({ answers: [{ status: 503, times: 1 }] });
  expect((await (await connectFcm(sandbox)).ask({ body: '{}' })).status).toBe(400);
  expect(sandbox.answers()).toHaveLength(1);
});

test('a share is answered so, the rest as if the entry were not there; the same for the same seed', async () => {
  const run = async (seed: number) => {
    const answers = [
      { share: 0.25, status: 503 },
      { token: 'ab', status: 500, times: 1_000 },
    ];
    return statusesOf(
      await openSandbox({ seed, answers }),
      'fcm',
      Array.from({ length: 200 }, () => 'ab'),
    );
  };
  const first = await run(7);
  expect(await run(7)).toEqual(first);
  expect(new Set(first)).toEqual(new Set([503, 500]));
  expect(Math.abs(first.filter((status) => status === 503).length - 50)).toBeLessThan(25);
});

test.each<[entry: object, fault: string]>([
  [{}, 'expected a reason, a status or an answer, found an object'],
  [{ platform: 'sms', status: 503 }, 'platform: expected "apns" or "fcm" or "webpush", found "sms"'],
  [
    { platform: 'fcm', status: 410 },
    'status: expected a status that FCM answers: 400, 401, 403, 404, 429, 500, 502, 503, 504, found 410',
  ],
  [{ platform: 'apns', reason: 'UNREGISTERED' }, 'reason: expected a reason of APNs (BadChannelId, '],
  [{ reason: 'Unregistered', status: 404 }, 'status: expected 410, the status of Unregistered, found 404'],
  [{ status: 503, answer: 'hang' }, 'answer: expected none beside a reason or a status, found "hang"'],
  [{ answer: 'hang', delay: '1s' }, 'delay: expected none for "hang", which never ends, found "1s"'],
  [{ answer: 'reset', retryAfter: '1s' }, 'retryAfter: expected none without a reason or a status, found "1s"'],
  [
    { status: 503, retryAfter: '500ms' },
    'retryAfter: expected a duration in whole seconds, such as 30s or 2m, found "500ms"',
  ],
  [{ answer: 'accept', delay: '2h' }, 'delay: expected a duration such as 250ms, 3s or 1m, at most 1h, found "2h"'],
  [{ status: 503, times: 0 }, 'times: expected at least 1, found 0'],
  [{ status: 503, share: 0 }, 'share: expected a share above 0 and at most 1, found 0'],
  [{ reason: 'UNREGISTERED', field: 'x' }, 'field: expected none without the reason INVALID_ARGUMENT, found "x"'],
  [
    { reason: 'INVALID_ARGUMENT', field: 'message.token', apns: 'ExpiredToken' },
    'apns: expected none beside a field, found "ExpiredToken"',
  ],
  [{ answer: 'accept', alerted: false }, 'alerted: expected none for "accept", which always alerts, found false'],
])('the entry %j is refused', (entry, fault) => {
  expect(() => parseScript({ answers: [entry] })).toThrow(InputError);
  expect(() => parseScript({ answers: [entry] })).toThrow(fault);
});

test('a script names every fault at once, no token, and where it is no JSON', () => {
  const answers = [{ status: 503 }, { status: 1 }, { token: ['secret-token'], times: 'often', answer: 'hang' }];
  const fault = (() => {
    try {
      return parseScriptText(JSON.stringify({ answers }), 'the file');
    } catch (error) {
      return error as InputError;
    }
  })();
  expect((fault as InputError).faults.map(({ path }) => path).sort()).toEqual([
    ...['answers[1].status', 'answers[2].times', 'answers[2].token'],
  ]);
  expect((fault as InputError).message).not.toContain('secret');
  expect(() => parseScriptText('{"answers":', 'the file')).toThrow(
    'the file: expected JSON: { "answers": [ … ] }, found text that is not JSON',
  );
});

test('a script with a fault changes nothing, and starts no sandbox', async () => {
  const sandbox = await openSandbox({ answers: [{ status: 503 }] });
  expect(() => sandbox.setAnswers([{ status: 410 }])).toThrow('answers[0].status');
  expect(sandbox.answers()).toEqual([{ status: 503 }]);
  await expect(startSandbox({ answers: [{}] })).rejects.toThrow('answers[0]: expected a reason');
});

test("the example's script is one", async () => {
  const answers = parseScriptText(await readFile('examples/school-morning.sandbox.json', 'utf8'));
  expect(answers.length).toBeGreaterThan(5);
});

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
