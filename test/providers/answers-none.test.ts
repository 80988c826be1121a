import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import type { Provider, Reply } from '../../src/providers/provider.ts';
import { TRANSPORT_REPLIES } from '../../src/providers/transport-replies.ts';
import type { Answer } from '../../src/sandbox/answers.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import { openApns, openFcm, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';
import { withoutDetail } from './answers-table.ts';

type Platform = 'apns' | 'fcm';
const open = { apns: openApns, fcm: openFcm } as const;
const HTML = '<html><body>Bad Gateway</body></html>';
const UNREACHED = { meaning: 'later', alerted: 'no', unreached: true } as const;
const NO_WAY = { ...UNREACHED, trouble: 'outage' } as const;
const GIVEN_UP = { meaning: 'later', alerted: 'maybe', ambiguous: true } as const;
const SILENCE = { ...GIVEN_UP, trouble: 'outage' } as const;

/** How each is brought about; what a fault takes from the provider's options stands in `options`. */
interface Fault {
  readonly code: string;
  readonly name: string;
  readonly expected: Omit<Reply, 'code'>;
  readonly only?: Platform;
  readonly options?: { readonly endpoint?: string; readonly requestTimeoutMs?: number };
  readonly before?: (sandbox: Sandbox, platform: Platform, provider: Provider) => Promise<void> | void;
  readonly answer?: Answer;
  readonly leaveInMs?: number;
  readonly signal?: () => AbortSignal;
}

const FAULTS: readonly Fault[] = [
  { code: 'connection-refused', name: 'nobody listens', expected: NO_WAY, before: (box, on) => box[on].down() },
  {
    code: 'host-not-found',
    name: 'a name that does not exist',
    expected: NO_WAY,
    options: { endpoint: 'https://push.invalid' },
  },
  {
    code: 'tls-failed',
    name: 'a certificate that has expired',
    expected: NO_WAY,
    before: (box, on) => box.spoilCertificate(on, 'expired'),
  },
  {
    code: 'connect-timeout',
    name: 'a handshake that is not answered',
    expected: NO_WAY,
    options: { requestTimeoutMs: 200 },
    before: (box, on) => {
      box[on].slowHandshakes(60_000);
    },
  },
  {
    code: 'not-in-time',
    name: 'a handshake that is slower than the slot is fresh',
    expected: NO_WAY,
    leaveInMs: 100,
    before: (box, on) => {
      box[on].slowHandshakes(3_000);
    },
  },
  {
    code: 'refused-stream',
    name: "HTTP/2's promise",
    expected: UNREACHED,
    only: 'apns',
    answer: { kind: 'reset', scope: 'refused-stream' },
  },
  { code: 'cancelled', name: 'given up before', expected: UNREACHED, signal: () => AbortSignal.abort() },
  { code: 'too-late', name: 'a slot that is over', expected: UNREACHED, leaveInMs: -1 },
  {
    code: 'closed',
    name: 'a provider that was closed',
    expected: UNREACHED,
    before: (_box, _on, provider) => provider.close(),
  },
  {
    code: 'timeout',
    name: 'an answer that never comes',
    expected: SILENCE,
    options: { requestTimeoutMs: 300 },
    answer: { kind: 'hang' },
  },
  {
    code: 'timeout',
    name: 'an answer that comes too late',
    expected: SILENCE,
    options: { requestTimeoutMs: 300 },
    answer: { kind: 'accept', delayMs: 600 },
  },
  { code: 'reset', name: 'a connection that is reset', expected: SILENCE, answer: { kind: 'reset' } },
  { code: 'reset', name: 'the same, once it was taken', expected: SILENCE, answer: { kind: 'reset', accepted: true } },
  {
    code: 'reset',
    name: 'a stream that is reset',
    expected: SILENCE,
    only: 'apns',
    answer: { kind: 'reset', scope: 'stream' },
  },
  {
    code: 'reset',
    name: 'a connection that is cut off in the middle of the request',
    expected: SILENCE,
    before: (box, on) => {
      box[on].cutRequests(1);
    },
  },
  { code: 'unreadable', name: '200 with HTML', expected: SILENCE, answer: { kind: 'accept', body: HTML } },
  { code: 'unreadable', name: '200 with half of JSON', expected: SILENCE, answer: { kind: 'accept', body: '{"na' } },
  {
    code: 'unreadable',
    name: '200 with no name',
    expected: SILENCE,
    only: 'fcm',
    answer: { kind: 'accept', body: '{}' },
  },
  {
    code: 'aborted',
    name: 'given up while the answer was awaited',
    expected: GIVEN_UP,
    answer: { kind: 'hang' },
    signal: () => AbortSignal.timeout(500),
  },
];

const cases = FAULTS.flatMap((fault) =>
  (['apns', 'fcm'] as const)
    .filter((platform) => fault.only === undefined || fault.only === platform)
    .map((platform) => [fault.code, platform, fault.name, fault] as const),
);

test.each(cases)('%s on %s: %s', async (code, platform, _name, fault) => {
  const sandbox = await openSandbox();
  const provider = await open[platform](sandbox, { connections: 1, ...fault.options });
  await fault.before?.(sandbox, platform, provider);
  const push = makePush({ platform });
  if (fault.answer !== undefined) sandbox[platform].script(push.device.token, [fault.answer]);
  const prepared = provider.prepare(push);
  if (prepared.kind === 'refused') throw new Error('refused');
  const leaveBy = fault.leaveInMs === undefined ? undefined : performance.now() + fault.leaveInMs;
  const reply = await prepared.send({ leaveBy, signal: fault.signal?.() });
  expect(withoutDetail(reply)).toEqual({ ...fault.expected, code });
});

test('connection-failed: a server that hangs up before TLS stands', async () => {
  const server = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void server.close());
  const sandbox = await openSandbox();
  const endpoint = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  for (const platform of ['apns', 'fcm'] as const) {
    const reply = await sendPush(await open[platform](sandbox, { endpoint }), makePush({ platform }));
    expect(withoutDetail(reply)).toEqual({ ...NO_WAY, code: 'connection-failed' });
  }
});

test('no code is without a case', () => {
  const elsewhere = ['connection-failed', 'unknown']; // above, and in transport-replies.test.ts
  const codes = new Set([...FAULTS.map(({ code }) => code), ...elsewhere]);
  expect([...codes].sort()).toEqual(Object.keys(TRANSPORT_REPLIES).sort());
});
