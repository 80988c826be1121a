import { describe, expect, test } from 'vitest';
import { APNS_REPLIES, APNS_STATUS_REPLIES, APNS_UNKNOWN, apnsReply } from '../../src/providers/apns-replies.ts';
import { TRANSPORT_REPLIES } from '../../src/providers/transport-replies.ts';
import { APNS_REASONS } from '../../src/sandbox/apns-reasons.ts';
import type { Answer } from '../../src/sandbox/answers.ts';
import { openApns, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';

const statusOf: Readonly<Record<string, number>> = APNS_REASONS;

/** What APNs' answers come out as, through the real client and a real server; one provider for all of them. */
async function answersOf(scripts: readonly (readonly Answer[])[]) {
  const sandbox = await openSandbox();
  const provider = await openApns(sandbox);
  const replies = [];
  for (const script of scripts) {
    const push = makePush();
    sandbox.apns.script(push.device.token, script);
    const reply = await sendPush(provider, push);
    const { token } = push.device;
    replies.push({ reply, requests: sandbox.journal.all.filter((entry) => entry.token === token).length });
  }
  return replies;
}

describe("APNs' answers", () => {
  test('the table knows every reason of the documentation', () => {
    expect(Object.keys(APNS_REPLIES).sort()).toEqual(Object.keys(APNS_REASONS).sort());
  });

  test('every reason comes out as its row, after one request', async () => {
    const reasons = Object.keys(APNS_REPLIES);
    const scripts = reasons.map((reason): Answer[] => {
      const answer: Answer = { kind: 'refuse', reason, status: statusOf[reason] ?? 0 };
      return reason === 'ExpiredProviderToken' ? [answer, answer] : [answer];
    });
    const replies = await answersOf(scripts);
    expect(replies.map(({ reply }) => reply)).toEqual(
      reasons.map((reason) => ({ ...APNS_REPLIES[reason], code: reason })),
    );
    for (const [index, { requests }] of replies.entries()) {
      expect([reasons[index], requests]).toEqual([reasons[index], reasons[index] === 'ExpiredProviderToken' ? 2 : 1]);
    }
  });

  test.each([
    ['Unregistered', 'gone', 'no'],
    ['ExpiredToken', 'gone', 'no'],
    ['BadDeviceToken', 'bad-token', 'no'],
    ['DeviceTokenNotForTopic', 'bad-token', 'no'],
    ['PayloadTooLarge', 'rejected', 'no'],
    ['BadPath', 'rejected', 'no'],
    ['MethodNotAllowed', 'rejected', 'no'],
    ['InvalidProviderToken', 'auth', 'no'],
    ['TooManyRequests', 'later', 'no'],
    ['ServiceUnavailable', 'later', 'no'],
    ['InternalServerError', 'later', 'maybe'],
  ])('%s means %s', (reason, meaning, alerted) => {
    expect(APNS_REPLIES[reason]).toMatchObject({ meaning, alerted });
  });

  test('only what is about the provider as a whole says so', () => {
    const troubles = Object.keys(APNS_REPLIES).map((reason) => [reason, APNS_REPLIES[reason]?.trouble]);
    const expected = Object.keys(APNS_REPLIES).map((reason) => {
      const status = statusOf[reason] ?? 0;
      if (reason === 'TooManyProviderTokenUpdates') return [reason, 'quota'];
      return [reason, status === 403 ? 'auth' : status >= 500 ? 'outage' : undefined];
    });
    expect(troubles).toEqual(expected);
    expect(APNS_REPLIES['TooManyRequests']?.retryAfterMs).toBeGreaterThanOrEqual(60_000);
  });

  test('a new reason is taken by its status, and an empty answer too', async () => {
    const statuses = [...Object.keys(APNS_STATUS_REPLIES), '418'].map(Number);
    const named = statuses.map((status): Answer[] => [{ kind: 'refuse', status, reason: 'SomethingNew' }]);
    const empty = statuses.map((status): Answer[] => [{ kind: 'refuse', status, emptyBody: true }]);
    const replies = (await answersOf([...named, ...empty])).map(({ reply }) => reply);
    const rows = statuses.map((status) => APNS_STATUS_REPLIES[status] ?? APNS_UNKNOWN);
    expect(replies.slice(0, statuses.length)).toEqual(rows.map((row) => ({ ...row, code: 'SomethingNew' })));
    expect(replies.slice(statuses.length)).toEqual(
      rows.map((row, index) => ({ ...row, code: `http-${String(statuses[index])}` })),
    );
  });

  test('a token that is gone comes with the instant since when', async () => {
    const timestamp = Date.parse('2026-10-01T06:00:00Z');
    const [gone] = await answersOf([[{ kind: 'refuse', status: 410, reason: 'Unregistered', timestamp }]]);
    expect(gone?.reply).toEqual({ meaning: 'gone', alerted: 'no', code: 'Unregistered', goneSince: timestamp });
  });

  test('what the client could not read may have alerted', () => {
    const error = new Error('Unexpected error processing APNs response: Unexpected token < in JSON');
    const context = { push: makePush(), mayHaveArrived: true, nowMs: 0 };
    expect(apnsReply({ error }, context)).toEqual({ ...TRANSPORT_REPLIES.unreadable, code: 'unreadable' });
    const answer = { status: 503, retryAfter: undefined };
    expect(apnsReply({ error }, { ...context, answer })).toEqual({ ...APNS_STATUS_REPLIES[503], code: 'http-503' });
  });
});
