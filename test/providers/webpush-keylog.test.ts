import { expect, test } from 'vitest';
import { startProcess } from '../support/process.ts';

const OURS = `
  import { encodeWebpush } from './src/providers/webpush/webpush.ts';
  import { sandboxSubscription } from './sandbox/webpush/subscription.ts';
  const device = { platform: 'webpush', ...sandboxSubscription('https://127.0.0.1', 'ana') };
  const notification = { id: 'm', priority: 'normal', alert: { title: 'Room 12' } };
  const push = { notification, device, pushId: 'p', silent: false };
  console.log(encodeWebpush(push, { isAllowed: () => true, nowMs: 0 }).kind);
`;
const WITHOUT_US = `
  import { createECDH } from 'node:crypto';
  import { encrypt } from 'http_ece';
  import { sandboxSubscription } from './sandbox/webpush/subscription.ts';
  const privateKey = createECDH('prime256v1');
  privateKey.generateKeys();
  const { keys } = sandboxSubscription('https://127.0.0.1', 'ana');
  encrypt(Buffer.from('Room 12'), { version: 'aes128gcm', privateKey, dh: keys.p256dh, authSecret: keys.auth });
  console.log('ready');
`;

test('no key is printed, whatever the environment asks of http_ece', async () => {
  const run = (script: string) =>
    startProcess({ args: ['--input-type=module', '-e', script], env: { ECE_KEYLOG: '1' } }).waitForExit();
  expect(await run(OURS)).toMatchObject({ code: 0, stdout: 'ready\n', stderr: '' });
  // Otherwise the test would prove nothing: alone, http_ece does print them.
  expect((await run(WITHOUT_US)).stderr).toMatch(/secret|key/i);
});
