import { expect, it } from 'vitest';
import { redact } from '../../src/domain/redact.ts';

const notification = {
  devices: [{ platform: 'apns', token: 'abcdef0123' }],
  alert: { title: 'Room 12', body: 'Field trip' },
  data: { threadId: 'thread-9' },
};

it('takes out tokens and what was written to the recipient', () => {
  const words = 'apns refused abcdef0123: "Room 12", Field trip, thread-9';
  expect(redact(words, notification)).toBe('apns refused [redacted]: "[redacted]", [redacted], [redacted]');
});

it('takes out what looks like a token, whoever it belongs to', () => {
  expect(redact(`Bearer ${'a1'.repeat(40)} is refused`, {})).toBe('Bearer [redacted] is refused');
});

it('copes with a notification that is none', () => {
  for (const raw of [undefined, null, 7, 'text', [], { devices: 'secret-token' }]) {
    expect(redact('secret-token', raw)).toBe(
      typeof raw === 'object' && raw !== null && 'devices' in raw ? '[redacted]' : 'secret-token',
    );
  }
});

it('keeps it short', () => expect(redact('word '.repeat(999), {})).toHaveLength(300));
