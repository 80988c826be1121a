import { expect, test } from 'vitest';
import { createAllowed } from '../../src/providers/webpush/origins.ts';

const allowed = createAllowed(['https://push.example.com', 'https://127.0.0.1:8443']);

test.each([
  ['https://fcm.googleapis.com', 'named'],
  ['https://android.googleapis.com', 'named'],
  ['https://updates.push.services.mozilla.com', 'named'],
  ['https://web.push.apple.com', 'below'],
  ['https://wns2-am3p.notify.windows.com', 'below'],
  ['https://push.example.com', 'named'],
  ['https://127.0.0.1:8443', 'named'],
])('%s is allowed: %s', (origin, how) => expect(allowed(origin)).toBe(how));

test.each([
  'https://169.254.169.254',
  'https://localhost',
  'https://127.0.0.1',
  'https://127.0.0.1:8444',
  'https://redis.internal:6379',
  'https://fcm.googleapis.com:8443',
  'https://fcm.googleapis.com.evil.example',
  'https://fcm.googleapis.com.',
  'https://evilpush.apple.com',
  'https://push.apple.com',
  'https://a.push.apple.com:8443',
  'https://notify.windows.com',
  'https://xnotify.windows.com',
  'https://sub.push.example.com',
])('%s is not', (origin) => expect(allowed(origin)).toBeUndefined());
