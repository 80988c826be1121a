import { describe, expect, test } from 'vitest';
import { tokenOf } from '../../src/notification/device.ts';
import type { Platform } from '../../src/notification/notification.ts';
import type { Provider, Reply, ReplyRow } from '../../src/providers/provider.ts';
import { PROVIDERS } from '../../src/providers/registry.ts';
import { APNS_REASONS, apnsRefusal, type ApnsReason } from '../../sandbox/apns/reasons.ts';
import type { Answer, Refuse } from '../../sandbox/loopback/answers.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { webpushRefusal } from '../../sandbox/webpush/reasons.ts';
import { describeRow, readAnswers } from '../providers/answers-table.ts';
import { openSandbox, sendPush } from '../support/providers.ts';
import { openProvider, pushTo } from './provider-subject.ts';

const refuse = (status: number, reason?: string, more: Partial<Refuse> = {}): Refuse => ({
  kind: 'refuse',
  status,
  ...(reason !== undefined && { reason }),
  ...more,
});
const ofApns = (reason: ApnsReason): Partial<Refuse> => ({ apns: { statusCode: APNS_REASONS[reason], reason } });
const naming = (field: string): Partial<Refuse> => ({ violations: [{ field, description: 'invalid' }] });

/** How the loopback server refuses with each word of the documents. */
const REFUSALS: Readonly<Record<Platform, Readonly<Record<string, Refuse>>>> = {
  apns: Object.fromEntries(Object.keys(APNS_REASONS).map((word) => [word, apnsRefusal(word as ApnsReason)])),
  fcm: {
    UNREGISTERED: refuse(404, 'UNREGISTERED'),
    SENDER_ID_MISMATCH: refuse(403, 'SENDER_ID_MISMATCH'),
    'INVALID_ARGUMENT (message.token)': refuse(400, 'INVALID_ARGUMENT', naming('message.token')),
    'INVALID_ARGUMENT (message.fid)': refuse(400, 'INVALID_ARGUMENT', naming('message.fid')),
    'INVALID_ARGUMENT (ApnsError: gone)': refuse(400, 'INVALID_ARGUMENT', ofApns('Unregistered')),
    'INVALID_ARGUMENT (ApnsError: bad token)': refuse(400, 'INVALID_ARGUMENT', ofApns('BadDeviceToken')),
    INVALID_ARGUMENT: refuse(400, 'INVALID_ARGUMENT', naming('message.android.ttl')),
    NOT_FOUND: refuse(404),
    THIRD_PARTY_AUTH_ERROR: refuse(401, 'THIRD_PARTY_AUTH_ERROR'),
    UNAUTHENTICATED: refuse(401),
    PERMISSION_DENIED: refuse(403),
    QUOTA_EXCEEDED: refuse(429, 'QUOTA_EXCEEDED', { quota: 'device' }),
    'QUOTA_EXCEEDED (project)': refuse(429, 'QUOTA_EXCEEDED', { quota: 'project' }),
    RESOURCE_EXHAUSTED: refuse(429),
    INTERNAL: refuse(500, 'INTERNAL'),
    UNAVAILABLE: refuse(503, 'UNAVAILABLE'),
    DEADLINE_EXCEEDED: refuse(504, 'DEADLINE_EXCEEDED'),
    UNSPECIFIED_ERROR: refuse(500, 'UNSPECIFIED_ERROR'),
  },
  webpush: {
    VapidPkHashMismatch: webpushRefusal('VapidPkHashMismatch'),
    'other-key': webpushRefusal('other-key'),
  },
};

/** How the loopback server answers with a code of the documents. */
function answerWith(platform: Platform, code: string): Answer {
  if (/^20\d$/.test(code)) return { kind: 'accept' };
  const [, status] = /^http-(\d+)$/.exec(code) ?? [];
  const answer =
    status === undefined ? REFUSALS[platform][code] : refuse(Number(status), undefined, { emptyBody: true });
  if (answer === undefined) throw new Error(`REFUSALS has no "${code}" of ${platform}`);
  return answer;
}

/** What no provider documents, "Any other status" in docs/provider-faults.md. */
const ANY_OTHER: readonly (readonly [ReplyRow, readonly number[]])[] = [
  [{ meaning: 'rejected', alerted: 'no' }, [402, 411, 415, 418, 431, 451]],
  [{ meaning: 'later', alerted: 'no', suspect: 'outage' }, [408, 421, 425]],
  [{ meaning: 'later', alerted: 'maybe', retryAfterMs: 10_000, suspect: 'outage' }, [302, 520]],
];

/** Each of these means something else. */
const STATUSES = [302, 400, 403, 408, 413, 418, 429, 500];
const HTML = '<html><head><title>Bad Gateway</title></head><body>upstream</body></html>';
/** Bodies without a word of the provider. */
const BODIES = [
  HTML,
  '{"reason":"Unregis',
  '42',
  'null',
  '[{"reason":1}]',
  '{"reason":{"a":1},"error":{"status":7,"details":[null,3,{"errorCode":{}}]}}',
];
const NEW_WORDS = ['SomethingNew', 'toString', '__proto__', 'constructor', 'x'.repeat(50)];

/** A reply without the words for a person. */
export function withoutDetail(reply: Reply): Reply {
  const { detail, ...rest } = reply;
  return detail === undefined ? reply : rest;
}

/** Every answer means one thing, whatever stands around it: what the documents say. */
export function answers(platform: Platform): void {
  async function open(): Promise<[Sandbox, Provider]> {
    const sandbox = await openSandbox();
    return [sandbox, openProvider(platform, sandbox)];
  }

  /** What the provider makes of these answers; one request each. */
  async function repliesTo(all: readonly Answer[], [sandbox, provider]: [Sandbox, Provider]) {
    sandbox.journal.clear();
    const replies: Reply[] = [];
    for (const answer of all) {
      const push = pushTo(sandbox, { platform });
      sandbox[platform].script(tokenOf(push.device), [answer]);
      replies.push(withoutDetail(await sendPush(provider, push)));
    }
    expect(sandbox.journal.all).toHaveLength(all.length);
    return replies;
  }

  describe('answers', () => {
    test('each means what docs/provider-faults.md says, or the provider’s own page, with one request', async () => {
      const documented = await readAnswers(`What ${PROVIDERS[platform].name} answers`);
      const answered = documented.filter(({ code }) => !code.startsWith('sign-in'));
      expect(answered.length).toBeGreaterThan(15);
      const replies = await repliesTo(
        answered.map(({ code }) => answerWith(platform, code)),
        await open(),
      );
      expect(replies.map((reply, index) => describeRow(answered[index]?.code ?? '', reply))).toEqual(answered);
      expect(replies.map(({ code }) => code)).toEqual(answered.map(({ code }) => code.split(' ')[0]));
    });

    test('any other status means the same at all providers', async () => {
      const opened = await open();
      for (const [row, statuses] of ANY_OTHER) {
        const replies = await repliesTo(
          statuses.map((status) => refuse(status, undefined, { emptyBody: true })),
          opened,
        );
        expect(replies).toEqual(statuses.map((status) => ({ ...row, code: `http-${status}` })));
      }
    });

    test('a body without a word of the provider, or with a new one, changes nothing of what the status means', async () => {
      const opened = await open();
      const to = (more: Partial<Refuse>, word?: string) =>
        repliesTo(
          STATUSES.map((status) => refuse(status, word, more)),
          opened,
        );
      const plain = await to({ emptyBody: true });
      for (const body of BODIES) expect(await to({ body }), body).toEqual(plain);
      for (const word of NEW_WORDS)
        expect(await to({}, word)).toEqual(plain.map((reply) => ({ ...reply, code: word })));
    });

    test('a 200 that is not the provider’s, where the body shows that: nobody knows', async () => {
      const bodies = [HTML, '{"na', '{}x', '[]', 'null'];
      const expected: Reply =
        platform === 'webpush' // RFC 8030 says nothing of a body
          ? { meaning: 'accepted', alerted: 'yes', code: '201' }
          : { meaning: 'later', alerted: 'maybe', ambiguous: true, suspect: 'outage', code: 'unreadable' };
      const replies = await repliesTo(
        bodies.map((body) => ({ kind: 'accept', body })),
        await open(),
      );
      expect(replies).toEqual(bodies.map(() => expected));
    });

    test('Retry-After takes the place of the time in the table, and not where waiting is no use', async () => {
      const dateIn = (ms: number) => new Date(Date.now() + ms).toUTCString();
      const headers = ['7', dateIn(3_600_000), 'soon', '0', '-5', dateIn(-60_000), '999999999'];
      const waits = headers.map((retryAfter) => refuse(429, undefined, { retryAfter }));
      const replies = await repliesTo([...waits, refuse(413, undefined, { retryAfter: '30' })], await open());
      const [seconds, until = 0, ...others] = replies.map(({ retryAfterMs }) => retryAfterMs);
      expect(seconds).toBe(7_000);
      expect(until).toBeGreaterThan(3_500_000);
      expect(until).toBeLessThanOrEqual(3_600_000);
      expect(others).toEqual([60_000, 60_000, 60_000, 60_000, 86_400_000, undefined]);
    });

    test('neither the token nor the words of the alert come back, whatever the answer repeats', async () => {
      const [sandbox, provider] = await open();
      const push = pushTo(sandbox, { platform, data: { note: 'allergic to nuts' } });
      const token = tokenOf(push.device);
      const said = `${token} Field trip forms are due allergic to nuts`;
      sandbox[platform].script(token, [refuse(400, said, { message: said }), refuse(500, undefined, { body: said })]);
      for (let sent = 0; sent < 2; sent += 1) {
        const text = JSON.stringify(await sendPush(provider, push));
        for (const secret of [token, 'Field trip', 'allergic']) expect(text).not.toContain(secret);
      }
    });
  });
}
