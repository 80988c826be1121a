import fc from 'fast-check';
import { expect, it } from 'vitest';
import { formatFault } from '../../src/domain/faults.ts';
import { parseNotification } from '../../src/notification/notification.ts';
import { redact } from '../../src/notification/redact.ts';
import { createLog } from '../../src/observe/log.ts';
import { describe as describeRecipient } from '../../scripts/recipient/describe.ts';
import { startProcess } from '../support/process.ts';
import { hostileText } from './hostile.ts';
import { ENCODINGS, leaksIn, MARKS } from './marks.ts';

/** What a terminal obeys, or what breaks a line or its direction. */
const UNSAFE = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/u;
const anything = fc.oneof(hostileText, fc.integer(), fc.double(), fc.constant(null), fc.array(hostileText));
const names = [
  'id',
  'recipientId',
  'devices',
  'alert',
  'data',
  'sound',
  'badge',
  'category',
  'collapseId',
  'expiresAt',
];

it('faults of hostile input stay short, on one line, and in plain characters', () => {
  const fields = fc.dictionary(fc.oneof(fc.constantFrom(...names), hostileText), anything, { maxKeys: 12 });
  const nested = fc.oneof(
    fields,
    fields.map((inner) => ({ devices: [inner], alert: inner, data: inner, ...inner })),
    anything,
  );
  fc.assert(
    fc.property(nested, (raw) => {
      const parsed = parseNotification(raw);
      if (parsed.ok) return;
      const message = parsed.faults.map(formatFault).join('; ');
      expect(message).not.toMatch(UNSAFE);
      expect(message.length).toBeLessThan(21 * 300);
    }),
    { numRuns: 1_000 },
  );
});

it('a log line stays one JSON line, whatever stands in it', () => {
  const lines: string[] = [];
  const log = createLog('trace', { write: (line) => void lines.push(line) });
  fc.assert(
    fc.property(hostileText, hostileText, (recipientId, message) => {
      lines.length = 0;
      log.info({ recipientId, err: new Error(message), jobId: message, detail: redact(message, {}) }, message);
      expect(lines).toHaveLength(1);
      const line = lines[0] ?? '';
      expect(line.endsWith('\n')).toBe(true);
      expect(line.slice(0, -1).replaceAll(/[\u007f-\u009f\p{Zl}\p{Zp}]/gu, '')).not.toMatch(/[\p{Cc}\p{Cs}]/u);
      expect(JSON.parse(line)).toMatchObject({ level: 'info', err: { type: 'Error' } });
    }),
    { numRuns: 1_000 },
  );
});

it('redaction finds a text in any encoding, in part too, whatever the text is', () => {
  fc.assert(
    fc.property(hostileText, fc.constantFrom(...Object.values(ENCODINGS)), (words, encode) => {
      const { title, body, data, apnsToken, fcmToken } = MARKS;
      const devices = [
        { platform: 'apns', token: apnsToken },
        { platform: 'fcm', token: fcmToken },
      ];
      const notification = { devices, alert: { title, body }, data: { note: data, words } };
      for (const mark of [title, body, data, apnsToken, fcmToken]) {
        const shown = redact(`refused ${encode(mark)} as "${encode(mark)}"`, notification);
        expect(leaksIn(shown)).toEqual([]);
        expect(shown.length).toBeLessThanOrEqual(300);
      }
    }),
    { numRuns: 40 },
  );
});

it('redaction of words that have nothing to hide leaves them as they are', () => {
  const notification = { devices: [{ platform: 'fcm', token: MARKS.fcmToken }], alert: { title: 'Room 12' } };
  for (const words of [
    'Unregistered',
    'The registration token is not valid',
    'connect ECONNREFUSED 127.0.0.1:443',
    '',
  ]) {
    expect(redact(words, notification)).toBe(words);
  }
});

it('a recipient is shown on a terminal without what a terminal obeys', () => {
  const inspection = {
    ...{ now: 0, policy: { rules: [], minGapMs: 0 }, source: 'default', sent: [], nextAt: 0, rule: 'none' },
  } as const;
  fc.assert(
    fc.property(hostileText, hostileText, hostileText, (recipientId, reason, id) => {
      const waiting = [{ at: 1, id, rule: reason, before: 0 }];
      const none = { found: [], lookedAt: 0, of: 0 };
      const described = describeRecipient({
        recipientId,
        inspection: {
          ...inspection,
          reserved: waiting,
          block: { reason, until: 1 },
          remaining: 0,
          resetMs: 0,
        } as never,
        ...{ delayed: none, notTaken: none, others: [], sending: [], kept: [] },
        ...{ waiting, categories: {}, limitsOf: undefined, most: 20 },
      });
      for (const line of described) expect(line).not.toMatch(UNSAFE);
    }),
    { numRuns: 300 },
  );
});

it('the command that enqueues says what is wrong with hostile lines, and repeats none of it', async () => {
  const { title, body, data, apnsToken, fcmToken } = MARKS;
  const jobs = [
    title,
    { recipientId: '\u001b[2J\u009b2J\u202e', devices: apnsToken, alert: title },
    { recipientId: 'r', devices: [fcmToken], alert: { [body]: 1 }, [`\u001b]0;${title}\u0007`]: 1 },
    {
      recipientId: 'r',
      devices: [{ platform: 'apns', token: fcmToken }],
      alert: { title, body },
      data: { key: [data] },
    },
  ];
  const input = `${jobs.map((job) => JSON.stringify(job)).join('\n')}\n{"alert": "${title.replace('"', '')}\n`;
  const { code, stdout, stderr } = await startProcess({
    args: ['scripts/enqueue.ts', '-', '--dry-run'],
    input,
  }).waitForExit();
  expect(code).toBe(1);
  expect(stdout).toBe('0 valid, 5 invalid\n');
  expect(stderr).toContain('recipientId: expected 1 to 256 printable characters');
  expect(stderr.replaceAll('\n', '')).not.toMatch(UNSAFE);
  expect(leaksIn(stderr)).toEqual([]);
});
