import { expect, test } from 'vitest';
import { createAllowed } from '../../src/providers/webpush/services.ts';

const isAllowed = createAllowed(['https://push.example.com', 'https://127.0.0.1:8443']);

test.each([
  'https://fcm.googleapis.com',
  'https://android.googleapis.com',
  'https://updates.push.services.mozilla.com',
  'https://web.push.apple.com',
  'https://wns2-am3p.notify.windows.com',
  'https://push.example.com',
  'https://127.0.0.1:8443',
])('%s is allowed', (origin) => expect(isAllowed(origin)).toBe(true));

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
])('%s is not', (origin) => expect(isAllowed(origin)).toBe(false));
