import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { formatFault } from '../../src/domain/faults.ts';
import { parseNotification } from '../../src/domain/notification.ts';

const SECRET = 'b00bf00d-secret-token';
const good = {
  id: 'msg-8841',
  recipientId: 'teacher-42',
  devices: [{ platform: 'apns', token: 'abcdef01' }],
  alert: { title: 'Room 12', body: 'Field trip forms are due' },
};

function faultsOf(raw: unknown): string[] {
  const parsed = parseNotification(raw);
  return parsed.ok ? [] : parsed.faults.map(formatFault);
}

describe('what fits', () => {
  it('fills in the defaults', () => {
    expect(parseNotification(good)).toEqual({
      ok: true,
      notification: { ...good, pushType: 'alert', priority: 'normal', onThrottle: 'delay', onQuiet: 'delay' },
    });
  });

  it.each([
    ['2026-11-21T18:00:00Z', Date.UTC(2026, 10, 21, 18)],
    ['2026-11-21T18:00:00.5+01:00', Date.UTC(2026, 10, 21, 17, 0, 0, 500)],
    [1_795_284_000_000, 1_795_284_000_000],
  ])('reads expiresAt %s', (expiresAt, ms) => {
    expect(parseNotification({ ...good, expiresAt })).toMatchObject({ notification: { expiresAt: ms } });
  });

  it.each(['Frau Müller-Łukasz', '{braces}', 'a'.repeat(256), '先生', '👩‍🏫'])(
    'takes the recipient %j',
    (recipientId) => {
      expect(faultsOf({ ...good, recipientId })).toEqual([]);
    },
  );
});

describe('what does not fit', () => {
  it.each([
    ['no object', 'text', 'expected an object, found a string of 4 characters'],
    ['an id', { ...good, id: 'a b' }, 'id: expected 1 to 128 of A-Z a-z 0-9 . _ ~ -, found "a b"'],
    ['no devices', { ...good, devices: [] }, 'devices: expected at least 1 entry, found an array of 0'],
    [
      'a platform',
      { ...good, devices: [{ platform: 'sms', token: 'x' }] },
      'devices[0].platform: expected "apns" or "fcm" or "webpush", found "sms"',
    ],
    [
      'an empty alert',
      { ...good, alert: { title: '' } },
      'alert: expected a title or a body that is not empty, found an object',
    ],
    ['a priority', { ...good, priority: 'urgent' }, 'priority: expected "high" or "normal", found "urgent"'],
    ['a badge', { ...good, badge: 1.5 }, 'badge: expected an integer, found 1.5'],
    [
      'a time before which it is not sent',
      { ...good, sendAfter: 1_795_284_000_000, expiresAt: '2026-11-21T18:00:00Z' },
      'sendAfter: expected a time before expiresAt, which is 2026-11-21T18:00:00.000Z, found 2026-11-21T18:00:00.000Z',
    ],
    [
      'seconds as expiresAt',
      { ...good, expiresAt: 1_795_284_000 },
      'expiresAt: expected epoch milliseconds or ISO 8601 (it looks like seconds), found 1795284000',
    ],
    [
      'seconds as sendAfter',
      { ...good, sendAfter: 1_795_284_000 },
      'sendAfter: expected epoch milliseconds or ISO 8601 (it looks like seconds), found 1795284000',
    ],
    [
      'a cancellation key',
      { ...good, cancellationKey: '' },
      'cancellationKey: expected 1 to 128 printable characters, found ""',
    ],
    [
      'a date',
      { ...good, expiresAt: 'tomorrow' },
      'expiresAt: expected an RFC 3339 date-time or epoch milliseconds, found "tomorrow"',
    ],
    [
      'data',
      { ...good, data: { n: NaN } },
      'data.n: expected JSON of at most 20 levels, without the key __proto__, found NaN',
    ],
    [
      'a field that is none',
      { ...good, expireAt: 1 },
      'expireAt: expected no such field (did you mean expiresAt?), found one',
    ],
  ])('names %s by its path', (_, raw, fault) => expect(faultsOf(raw)).toEqual([fault]));

  it.each(['a\nb', 'a\0b', '\ud800', '', 'a'.repeat(257)])('refuses the recipient %j', (recipientId) => {
    expect(faultsOf({ ...good, recipientId })).toHaveLength(1);
  });

  it('counts the bytes of a collapse id, not its characters', () => {
    expect(faultsOf({ ...good, collapseId: 'é'.repeat(32) })).toEqual([]);
    expect(faultsOf({ ...good, collapseId: 'é'.repeat(33) })).toHaveLength(1);
  });

  it('tells every fault at once', () => {
    expect(faultsOf({ id: '', devices: 7, alert: {}, badge: -1 }).map((fault) => fault.split(':')[0])).toEqual([
      'id',
      'recipientId',
      'devices',
      'alert',
      'badge',
    ]);
  });

  it('repeats neither tokens nor texts', () => {
    const told = faultsOf({
      ...good,
      devices: [{ platform: 'apns', token: SECRET }],
      alert: { title: 5, body: SECRET.repeat(999) },
      data: { aps: SECRET },
    }).join();
    expect(told).toContain(
      'devices[0].token: expected an APNs device token: 2 to 512 hexadecimal digits, found a string of',
    );
    expect(told).not.toContain(SECRET);
  });

  it('never throws, whatever it is given', () => {
    fc.assert(fc.property(fc.anything(), (raw) => void parseNotification(raw)));
  });
});
