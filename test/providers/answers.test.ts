import { describe, expect, test } from 'vitest';
import type { Reply } from '../../src/providers/provider.ts';
import { APNS_ACCEPTED, APNS_REPLIES, APNS_STATUS_REPLIES } from '../../src/providers/apns-replies.ts';
import { FCM_ACCEPTED, FCM_REPLIES, FCM_STATUS_REPLIES, SIGN_IN_REPLIES } from '../../src/providers/fcm-replies.ts';
import type { ReplyTable } from '../../src/providers/reply-row.ts';
import { TRANSPORT_REPLIES } from '../../src/providers/transport-replies.ts';
import type { Answer, Refuse } from '../../src/sandbox/answers.ts';
import { apnsRefusal } from '../../src/sandbox/apns-reasons.ts';
import type { ApnsReason } from '../../src/sandbox/apns-reasons.ts';
import { openApns, openFcm, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';
import { describeRow, readAnswers, withoutDetail } from './answers-table.ts';

type Platform = 'apns' | 'fcm';
const HTML = '<html><head><title>Bad Gateway</title></head><body>upstream</body></html>';
const NOW_MS = Date.parse('2026-11-21T18:00:00Z');

/** What the real client makes of answers of a real server, all on one connection. */
async function repliesTo(platform: Platform, scripts: readonly (readonly Answer[])[]): Promise<readonly Reply[]> {
  const sandbox = await openSandbox();
  const provider =
    platform === 'apns' ? await openApns(sandbox) : await openFcm(sandbox, { connections: 1, now: () => NOW_MS });
  const replies: Reply[] = [];
  for (const script of scripts) {
    const push = makePush({ platform });
    sandbox[platform].script(push.device.token, script);
    replies.push(await sendPush(provider, push));
  }
  return replies;
}

const codesOf = (answers: readonly { readonly code: string }[]) => answers.map(({ code }) => code).sort();
const byStatus = (table: ReplyTable): ReplyTable =>
  Object.fromEntries(Object.entries(table).map(([status, row]) => [`http-${status}`, row]));

describe('docs/provider-faults.md says what the code does', () => {
  test.each([
    ['What APNs answers', { 200: APNS_ACCEPTED, ...APNS_REPLIES, ...byStatus(APNS_STATUS_REPLIES) }],
    ['What FCM answers', { 200: FCM_ACCEPTED, ...FCM_REPLIES, ...byStatus(FCM_STATUS_REPLIES), ...SIGN_IN_REPLIES }],
    ['No answer', TRANSPORT_REPLIES],
  ] satisfies [string, ReplyTable][])('%s', async (heading, table: ReplyTable) => {
    const documented = await readAnswers(heading);
    expect(codesOf(documented)).toEqual(Object.keys(table).sort());
    for (const answer of documented) {
      expect(answer).toEqual(describeRow(answer.code, table[answer.code] ?? { meaning: 'later', alerted: 'maybe' }));
    }
  });
});

const FINAL = { alerted: 'no' } as const;
const AUTH = { meaning: 'auth', alerted: 'no', trouble: 'auth' } as const;
const REJECTED = { meaning: 'rejected', alerted: 'no' } as const;
const QUOTA = { meaning: 'later', alerted: 'no', retryAfterMs: 60_000, trouble: 'quota' } as const;
const SERVER_ERROR = { meaning: 'later', alerted: 'maybe', retryAfterMs: 10_000, trouble: 'outage' } as const;
const UNAVAILABLE = { meaning: 'later', alerted: 'no', trouble: 'outage' } as const;
const DEVICE_QUOTA = { meaning: 'later', alerted: 'no', retryAfterMs: 60_000 } as const;

describe('APNs', () => {
  const WORDS: Readonly<Record<ApnsReason, Omit<Reply, 'code'>>> = {
    BadDeviceToken: { meaning: 'bad-token', ...FINAL },
    DeviceTokenNotForTopic: { meaning: 'bad-token', ...FINAL },
    ExpiredToken: { meaning: 'gone', ...FINAL },
    Unregistered: { meaning: 'gone', ...FINAL },
    BadCollapseId: REJECTED,
    BadExpirationDate: REJECTED,
    BadMessageId: REJECTED,
    BadPath: REJECTED,
    BadPriority: REJECTED,
    BadTopic: REJECTED,
    DuplicateHeaders: REJECTED,
    InvalidPushType: REJECTED,
    MethodNotAllowed: REJECTED,
    MissingDeviceToken: REJECTED,
    MissingTopic: REJECTED,
    PayloadEmpty: REJECTED,
    PayloadTooLarge: REJECTED,
    TopicDisallowed: REJECTED,
    IdleTimeout: { meaning: 'later', alerted: 'no' },
    BadCertificate: AUTH,
    BadCertificateEnvironment: AUTH,
    ExpiredProviderToken: AUTH,
    Forbidden: AUTH,
    InvalidProviderToken: AUTH,
    MissingProviderToken: AUTH,
    TooManyProviderTokenUpdates: QUOTA,
    TooManyRequests: DEVICE_QUOTA,
    InternalServerError: SERVER_ERROR,
    ServiceUnavailable: UNAVAILABLE,
    Shutdown: UNAVAILABLE,
  };
  const STATUSES: Readonly<Record<number, Omit<Reply, 'code'>>> = {
    400: REJECTED,
    403: AUTH,
    404: REJECTED,
    405: REJECTED,
    410: { meaning: 'gone', ...FINAL },
    413: REJECTED,
    418: SERVER_ERROR,
    429: DEVICE_QUOTA,
    500: SERVER_ERROR,
    502: SERVER_ERROR,
    503: UNAVAILABLE,
    504: SERVER_ERROR,
    520: SERVER_ERROR,
  };

  test('every one of its words', async () => {
    const reasons = Object.keys(WORDS) as ApnsReason[];
    const replies = await repliesTo(
      'apns',
      reasons.map((reason) => [apnsRefusal(reason), apnsRefusal(reason)]), // twice, for the token that is renewed
    );
    expect(replies).toEqual(reasons.map((reason) => ({ ...WORDS[reason], code: reason })));
    expect(reasons.sort()).toEqual(Object.keys(APNS_REPLIES).sort());
  });

  test.each([
    ['an empty body', { emptyBody: true }],
    ['HTML of a load balancer', { body: HTML }],
    ['half of an answer', { body: '{"reason":"Unregis' }],
    ['JSON that is no object', { body: '42' }],
  ])('by its status, with %s', async (_name, body) => {
    const statuses = Object.keys(STATUSES).map(Number);
    const replies = await repliesTo(
      'apns',
      statuses.map((status) => [{ kind: 'refuse', status, ...body }]),
    );
    expect(replies).toEqual(statuses.map((status) => ({ ...STATUSES[status], code: `http-${status}` })));
  });

  test('Retry-After, in seconds and as a date, and not where waiting is no use', async () => {
    const date = new Date(Date.now() + 3_600_000).toUTCString();
    const replies = await repliesTo('apns', [
      [{ ...apnsRefusal('TooManyRequests'), retryAfter: '120' }],
      [{ ...apnsRefusal('ServiceUnavailable'), retryAfter: date }],
      [{ ...apnsRefusal('TooManyRequests'), retryAfter: 'soon' }],
      [{ kind: 'refuse', status: 503, body: HTML, retryAfter: '30' }],
      [{ ...apnsRefusal('Unregistered'), retryAfter: '30' }],
    ]);
    const waits = replies.map(({ retryAfterMs }) => retryAfterMs);
    expect(waits).toEqual([120_000, expect.any(Number), 60_000, 30_000, undefined]);
    expect(waits[1]).toBeGreaterThan(3_500_000);
    expect(waits[1]).toBeLessThanOrEqual(3_600_000);
  });

  test('taken', async () => {
    expect(await repliesTo('apns', [[]])).toEqual([{ meaning: 'accepted', code: '200', alerted: 'yes' }]);
  });
});

describe('FCM', () => {
  const refuse = (status: number, reason?: string): Refuse => ({
    kind: 'refuse',
    status,
    ...(reason === undefined ? {} : { reason }),
  });
  const violation = (field: string) => ({ violations: [{ field, description: 'invalid' }] });
  const WORDS: Readonly<Record<string, readonly [Refuse, Omit<Reply, 'code'>]>> = {
    UNREGISTERED: [refuse(404, 'UNREGISTERED'), { meaning: 'gone', ...FINAL }],
    SENDER_ID_MISMATCH: [refuse(403, 'SENDER_ID_MISMATCH'), { meaning: 'bad-token', ...FINAL }],
    'INVALID_ARGUMENT (message.token)': [
      { ...refuse(400, 'INVALID_ARGUMENT'), ...violation('message.token') },
      { meaning: 'bad-token', ...FINAL },
    ],
    INVALID_ARGUMENT: [{ ...refuse(400, 'INVALID_ARGUMENT'), ...violation('message.android.ttl') }, REJECTED],
    NOT_FOUND: [refuse(404), REJECTED],
    THIRD_PARTY_AUTH_ERROR: [refuse(401, 'THIRD_PARTY_AUTH_ERROR'), AUTH],
    UNAUTHENTICATED: [refuse(401), AUTH],
    PERMISSION_DENIED: [refuse(403), AUTH],
    QUOTA_EXCEEDED: [refuse(429, 'QUOTA_EXCEEDED'), QUOTA],
    RESOURCE_EXHAUSTED: [refuse(429), QUOTA],
    INTERNAL: [refuse(500, 'INTERNAL'), SERVER_ERROR],
    UNAVAILABLE: [refuse(503, 'UNAVAILABLE'), SERVER_ERROR],
    DEADLINE_EXCEEDED: [refuse(504, 'DEADLINE_EXCEEDED'), SERVER_ERROR],
    UNSPECIFIED_ERROR: [refuse(500, 'UNSPECIFIED_ERROR'), SERVER_ERROR],
  };
  const STATUSES: Readonly<Record<number, Omit<Reply, 'code'>>> = {
    400: REJECTED,
    401: AUTH,
    403: AUTH,
    404: REJECTED,
    413: REJECTED,
    418: SERVER_ERROR,
    429: QUOTA,
    500: SERVER_ERROR,
    502: SERVER_ERROR,
    503: SERVER_ERROR,
    504: SERVER_ERROR,
    520: SERVER_ERROR,
  };

  test('every one of its words', async () => {
    const words = Object.keys(WORDS);
    const replies = await repliesTo(
      'fcm',
      Object.values(WORDS).map(([answer]) => [answer]),
    );
    expect(replies.map(withoutDetail)).toEqual(
      words.map((word) => ({ ...WORDS[word]?.[1], code: word.split(' ')[0] })),
    );
    expect(words.sort()).toEqual(Object.keys(FCM_REPLIES).sort());
  });

  test.each([
    ['an empty body', { emptyBody: true }],
    ['HTML of a load balancer', { body: HTML }],
    ['half of an answer', { body: '{"error":{"code":40' }],
    ['JSON that is no object', { body: '42' }],
  ])('by its status, with %s', async (_name, body) => {
    const statuses = Object.keys(STATUSES).map(Number);
    const replies = await repliesTo(
      'fcm',
      statuses.map((status) => [{ ...refuse(status), ...body }]),
    );
    expect(replies).toEqual(statuses.map((status) => ({ ...STATUSES[status], code: `http-${status}` })));
  });

  test('Retry-After, in seconds and as a date, and not where waiting is no use', async () => {
    const replies = await repliesTo('fcm', [
      [{ ...refuse(429, 'QUOTA_EXCEEDED'), retryAfter: '7' }],
      [{ ...refuse(429, 'QUOTA_EXCEEDED') }],
      [{ ...refuse(503, 'UNAVAILABLE'), retryAfter: 'Sat, 21 Nov 2026 18:00:30 GMT' }],
      [{ ...refuse(503), body: HTML, retryAfter: '999999999' }],
      [{ ...refuse(404, 'UNREGISTERED'), retryAfter: '30' }],
    ]);
    const waits = replies.map(({ retryAfterMs }) => retryAfterMs);
    expect(waits).toEqual([7_000, 60_000, 30_000, 86_400_000, undefined]);
  });

  test('taken', async () => {
    expect(await repliesTo('fcm', [[]])).toEqual([{ meaning: 'accepted', code: '200', alerted: 'yes' }]);
  });
});
