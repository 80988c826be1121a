import { describe, expect, test } from 'vitest';
import { tokenOf } from '../../src/domain/device.ts';
import type { Reply } from '../../src/providers/provider.ts';
import type { Answer, Refuse } from '../../sandbox/loopback/answers.ts';
import { openSandbox, sendPush } from '../support/providers.ts';
import { pushTo, type ProviderSubject } from './provider-subject.ts';

const HTML = '<html><head><title>Bad Gateway</title></head><body>upstream</body></html>';
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

/** Every answer means one thing, whatever stands around it. */
export function answers({ platform, open, words, statuses, table, accepted, readsBodies }: ProviderSubject): void {
  /** What the provider makes of these answers, all over one provider; one request each. */
  async function repliesTo(all: readonly Answer[]): Promise<readonly Reply[]> {
    const sandbox = await openSandbox();
    const provider = await open(sandbox);
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
    test('taken', async () => {
      expect(await repliesTo([{ kind: 'accept' }])).toEqual([accepted]);
    });

    test('every word of the table, with one request', async () => {
      const names = Object.keys(words);
      const replies = await repliesTo(Object.values(words).map(([answer]) => answer));
      expect(replies).toEqual(names.map((name) => ({ ...words[name]?.[1], code: name.split(' ')[0] })));
      expect(names.sort()).toEqual([...table].sort());
    });

    test.each<[string, Partial<Refuse>]>([
      ['an empty body', { emptyBody: true }],
      ['HTML of a load balancer', { body: HTML }],
      ['half of an answer', { body: '{"reason":"Unregis' }],
      ['JSON that is no object', { body: '42' }],
      ['null', { body: 'null' }],
      ['a list', { body: '[{"reason":1}]' }],
      [
        'words that are no text',
        { body: '{"reason":{"a":1},"error":{"status":7,"details":[null,3,{"errorCode":{}}]}}' },
      ],
    ])('by the status, with %s', async (_name, body) => {
      const codes = Object.keys(statuses).map(Number);
      const replies = await repliesTo(codes.map((status) => ({ kind: 'refuse', status, ...body })));
      expect(replies).toEqual(codes.map((status) => ({ ...statuses[status], code: `http-${status}` })));
    });

    test.each(['SomethingNew', 'toString', '__proto__', 'constructor', 'x'.repeat(50)])(
      'by the status, with the unknown word %s',
      async (reason) => {
        const codes = Object.keys(statuses).map(Number);
        const replies = await repliesTo(codes.map((status) => ({ kind: 'refuse', status, reason })));
        expect(replies).toEqual(codes.map((status) => ({ ...statuses[status], code: reason })));
      },
    );

    test.each([HTML, '{"na', '{}x', '[]', 'null'])(
      'a 200 with %j is not the provider’s, where it tells by the body: nobody knows',
      async (body) => {
        expect(await repliesTo([{ kind: 'accept', body }])).toEqual([readsBodies ? UNREADABLE : accepted]);
      },
    );

    test('Retry-After takes the place of the time in the table, and not where waiting is no use', async () => {
      const date = new Date(Date.now() + 3_600_000).toUTCString();
      const waits = ['7', date, 'soon', '999999999'].map(
        (retryAfter) => ({ kind: 'refuse', status: 429, retryAfter }) as const,
      );
      const replies = await repliesTo([...waits, { kind: 'refuse', status: 413, retryAfter: '30' }]);
      const [seconds, until, none, endless, final] = replies.map(({ retryAfterMs }) => retryAfterMs);
      expect([seconds, none, endless, final]).toEqual([7_000, 60_000, 86_400_000, undefined]);
      expect(until).toBeGreaterThan(3_500_000);
      expect(until).toBeLessThanOrEqual(3_600_000);
    });

    test('neither the token nor the words of the alert come back, whatever the answer repeats', async () => {
      const sandbox = await openSandbox();
      const provider = await open(sandbox);
      const push = pushTo(sandbox, { platform, data: { note: 'allergic to nuts' } });
      const token = tokenOf(push.device);
      const said = `${token} Field trip forms are due allergic to nuts`;
      sandbox[platform].script(token, [
        { kind: 'refuse', status: 400, reason: said, message: said },
        { kind: 'refuse', status: 500, body: said },
      ]);
      for (let sent = 0; sent < 2; sent += 1) {
        const text = JSON.stringify(await sendPush(provider, push));
        for (const secret of [token, 'Field trip', 'allergic']) expect(text).not.toContain(secret);
      }
    });
  });
}
