import { describe, expect, test } from 'vitest';
import { tokenOf } from '../../src/notification/device.ts';
import type { Platform } from '../../src/notification/notification.ts';
import type { Provider, Reply, ReplyRow } from '../../src/providers/provider.ts';
import { PROVIDERS } from '../../src/providers/registry.ts';
import { APNS_REASONS, apnsRefusal, type ApnsReason } from '../../sandbox/apns/reasons.ts';
import type { Answer, Refuse } from '../../sandbox/loopback/answers.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { webpushRefusal } from '../../sandbox/webpush/reasons.ts';
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

/** How the loopback server refuses with each word of a provider's table. */
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

/** What no provider documents: the request is at fault, or was not processed this time. */
const ELSE: Readonly<Record<number, ReplyRow>> = {
  ...Object.fromEntries(
    [402, 411, 412, 414, 415, 418, 422, 431, 451].map((status) => [status, { meaning: 'rejected', alerted: 'no' }]),
  ),
  ...Object.fromEntries(
    [408, 421, 425].map((status) => [status, { meaning: 'later', alerted: 'no', suspect: 'outage' }]),
  ),
};

const HTML = '<html><head><title>Bad Gateway</title></head><body>upstream</body></html>';
/** Bodies without a word of the provider. */
const BODIES: Readonly<Record<string, Partial<Refuse>>> = {
  'an empty body': { emptyBody: true },
  'HTML of a load balancer': { body: HTML },
  'half of an answer': { body: '{"reason":"Unregis' },
  'JSON that is no object': { body: '42' },
  null: { body: 'null' },
  'a list': { body: '[{"reason":1}]' },
  'words that are no text': {
    body: '{"reason":{"a":1},"error":{"status":7,"details":[null,3,{"errorCode":{}}]}}',
  },
};
const NEW_WORDS = ['SomethingNew', 'toString', '__proto__', 'constructor', 'x'.repeat(50)];
const UNREADABLE: Reply = {
  meaning: 'later',
  alerted: 'maybe',
  ambiguous: true,
  suspect: 'outage',
  code: 'unreadable',
};

/** A reply without the words for a person. */
export function withoutDetail(reply: Reply): Reply {
  const { detail, ...rest } = reply;
  return detail === undefined ? reply : rest;
}

/**
 * Every answer means one thing, whatever stands around it: what the provider's table says. The tables themselves are compared
 * with docs/provider-faults.md by test/house/providers.test.ts.
 */
export function answers(platform: Platform): void {
  const { accepted, words, statuses, unknown } = PROVIDERS[platform].answers;
  const byStatus: Readonly<Record<number, ReplyRow>> = { ...statuses, ...ELSE, 302: unknown, 520: unknown };
  const codes = Object.keys(byStatus).map(Number);

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
    test('every word of the table, with one request', async () => {
      const refusals = REFUSALS[platform];
      expect(Object.keys(refusals).sort()).toEqual(Object.keys(words).sort());
      const all: Answer[] = [{ kind: 'accept' }, ...Object.values(refusals)];
      const rows = Object.keys(refusals).map((word) => ({ ...words[word], code: word.split(' ')[0] }));
      expect(await repliesTo(all, await open())).toEqual([accepted, ...rows]);
    });

    test('by the status, where there is no word, and with a word that is new', async () => {
      const opened = await open();
      for (const [name, body] of Object.entries(BODIES)) {
        const replies = await repliesTo(
          codes.map((status) => refuse(status, undefined, body)),
          opened,
        );
        expect(replies, name).toEqual(codes.map((status) => ({ ...byStatus[status], code: `http-${status}` })));
      }
      for (const word of NEW_WORDS) {
        const replies = await repliesTo(
          codes.map((status) => refuse(status, word)),
          opened,
        );
        expect(replies).toEqual(codes.map((status) => ({ ...byStatus[status], code: word })));
      }
    });

    test('a 200 that is not the provider’s, where the body shows that: nobody knows', async () => {
      const bodies = [HTML, '{"na', '{}x', '[]', 'null'];
      const expected = platform === 'webpush' ? accepted : UNREADABLE; // RFC 8030 says nothing of a body
      const replies = await repliesTo(
        bodies.map((body) => ({ kind: 'accept', body })),
        await open(),
      );
      expect(replies).toEqual(bodies.map(() => expected));
    });

    test('Retry-After takes the place of the time in the table, and not where waiting is no use', async () => {
      const date = new Date(Date.now() + 3_600_000).toUTCString();
      const waits = ['7', date, 'soon', '999999999'].map((retryAfter) => refuse(429, undefined, { retryAfter }));
      const replies = await repliesTo([...waits, refuse(413, undefined, { retryAfter: '30' })], await open());
      const [seconds, until, none, endless, final] = replies.map(({ retryAfterMs }) => retryAfterMs);
      expect([seconds, none, endless, final]).toEqual([7_000, 60_000, 86_400_000, undefined]);
      expect(until).toBeGreaterThan(3_500_000);
      expect(until).toBeLessThanOrEqual(3_600_000);
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
