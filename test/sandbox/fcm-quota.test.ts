import { expect, it } from 'vitest';
import type { Refuse } from '../../sandbox/loopback/answers.ts';
import { openSandbox } from '../support/sandbox.ts';
import { connectFcmHttp2, rpcError, verdict } from './fcm-client.ts';

const OVER: Refuse = { kind: 'refuse', status: 429, reason: 'QUOTA_EXCEEDED' };
const QUOTA_EXCEEDED = { '@type': 'type.googleapis.com/google.firebase.fcm.v1.FcmError', errorCode: 'QUOTA_EXCEEDED' };
const QUOTA_FAILURE = 'type.googleapis.com/google.rpc.QuotaFailure';
const token = 'ab';

it.each([
  ['device', 'device', 'Device message rate exceeded'],
  ['project', 'project:pushpacer-sandbox', 'Message rate exceeded'],
] as const)("a %s's quota is named in a google.rpc.QuotaFailure", async (quota, subject, description) => {
  const sandbox = await openSandbox();
  const client = await connectFcmHttp2(sandbox);
  sandbox.fcm.script(token, [{ ...OVER, quota }]);
  expect(rpcError(await client.send({ token }))).toEqual({
    code: 429,
    message: 'Quota exceeded.',
    status: 'RESOURCE_EXHAUSTED',
    details: [QUOTA_EXCEEDED, { '@type': QUOTA_FAILURE, violations: [{ subject, description }] }],
  });
});

it('a quota that nobody names is told by its code alone', async () => {
  const sandbox = await openSandbox();
  const client = await connectFcmHttp2(sandbox);
  sandbox.fcm.script(token, [OVER]);
  expect(rpcError(await client.send({ token })).details).toEqual([QUOTA_EXCEEDED]);
});

it("a project's quota at Google's front end is told without FCM's words", async () => {
  const sandbox = await openSandbox();
  const client = await connectFcmHttp2(sandbox);
  sandbox.fcm.script(token, [{ kind: 'refuse', status: 429, quota: 'project' }]);
  const { message, details = [] } = rpcError(await client.send({ token }));
  expect(message).toMatch(/^Quota exceeded for quota metric 'Send requests' and limit 'Send requests per minute'/);
  expect(details.map((detail) => detail['@type'])).toEqual([
    'type.googleapis.com/google.rpc.ErrorInfo',
    'type.googleapis.com/google.rpc.Help',
  ]);
  expect(details[0]).toMatchObject({
    reason: 'RATE_LIMIT_EXCEEDED',
    metadata: { quota_limit: 'SendsPerMinutePerProject', quota_unit: '1/min/{project}' },
  });
});

it("the server's own limit of alerts for a device is the device's", async () => {
  const sandbox = await openSandbox();
  const client = await connectFcmHttp2(sandbox);
  sandbox.fcm.limitDevices({ max: 1, perMs: 60_000 });
  expect(await client.send({ token })).toMatchObject({ status: 200 });
  const refused = await client.send({ token });
  expect(verdict(refused)).toMatchObject({ http: 429, errorCode: 'QUOTA_EXCEEDED' });
  expect(rpcError(refused).details?.[1]).toMatchObject({ '@type': QUOTA_FAILURE, violations: [{ subject: 'device' }] });
  expect(await client.send({ token: 'cd' })).toMatchObject({ status: 200 });
});
