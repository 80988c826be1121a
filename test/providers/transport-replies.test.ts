import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import { parseRetryAfter, transportCode, TRANSPORT_REPLIES } from '../../src/providers/transport-replies.ts';
import { tryOnce } from '../../src/providers/wire.ts';
import { openApns, openFcm, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';

test('what may have alerted is ambiguous, and nothing else is', () => {
  for (const [code, row] of Object.entries<{ alerted: string; ambiguous?: boolean }>(TRANSPORT_REPLIES)) {
    expect([code, row.ambiguous ?? false]).toEqual([code, row.alerted === 'maybe']);
  }
});

test.each([
  ['ECONNREFUSED', 'connection-refused'],
  ['ENOTFOUND', 'host-not-found'],
  ['EAI_AGAIN', 'host-not-found'],
  ['EPROTO', 'tls-failed'],
  ['CERT_HAS_EXPIRED', 'tls-failed'],
  ['DEPTH_ZERO_SELF_SIGNED_CERT', 'tls-failed'],
  ['INVALID_PURPOSE', 'tls-failed'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'tls-failed'],
  ['ETIMEDOUT', 'connect-timeout'],
  ['ERR_HTTP2_GOAWAY_SESSION', 'refused-stream'],
  ['ECONNRESET', 'connection-failed'],
  ['toString', 'connection-failed'],
] as const)('%s before anything left is %s, and ambiguous after it', (code, expected) => {
  const error = new Error('outer', { cause: Object.assign(new Error('inner'), { code }) });
  expect(transportCode(error, false)).toBe(expected);
  expect(TRANSPORT_REPLIES[expected].alerted).toBe('no');
  expect(transportCode(error, true)).toBe(code === 'ETIMEDOUT' ? 'timeout' : 'reset');
});

test('a server that hangs up before TLS stands has processed nothing', async () => {
  const server = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const sandbox = await openSandbox();
  const endpoint = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const expected = { ...TRANSPORT_REPLIES['connection-failed'], code: 'connection-failed' };
  const apns = await openApns(sandbox, { endpoint });
  expect(await sendPush(apns, makePush())).toMatchObject(expected);
  const fcm = await openFcm(sandbox, { endpoint });
  expect(await sendPush(fcm, makePush({ platform: 'fcm' }))).toMatchObject(expected);
});

test('a client that throws what nobody foresaw is answered too, without its message', async () => {
  const send = () => Promise.reject(new TypeError('secret'));
  expect(await tryOnce(send, { timeoutMs: 1_000 })).toEqual({
    ...TRANSPORT_REPLIES.unknown,
    code: 'unknown',
    detail: 'TypeError',
  });
});

test.each([
  ['0', undefined],
  ['120', 120_000],
  ['Sat, 21 Nov 2026 18:01:00 GMT', 60_000],
  ['Sat, 21 Nov 2026 17:59:00 GMT', undefined],
  ['soon', undefined],
  [undefined, undefined],
])('Retry-After %s', (header, expected) => {
  expect(parseRetryAfter(header, Date.parse('2026-11-21T18:00:00Z'))).toBe(expected);
});
