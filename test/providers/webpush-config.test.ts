import { createECDH, generateKeyPairSync } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { loadConfig } from '../../src/config/config.ts';
import { formatFault, InputError } from '../../src/domain/faults.ts';
import { readVapidKey } from '../../src/providers/webpush/webpush.ts';

const pair = createECDH('prime256v1');
pair.generateKeys();
const PRIVATE = Buffer.concat([Buffer.alloc(32), pair.getPrivateKey()])
  .subarray(-32)
  .toString('base64url');
const PUBLIC = pair.getPublicKey('base64url');
const SUBJECT = 'mailto:push@example.com';

function faultsOf(env: Readonly<Record<string, string>>): string[] {
  try {
    loadConfig(env);
    return [];
  } catch (error) {
    if (error instanceof InputError) return error.faults.map(formatFault);
    throw error;
  }
}

test('a key and a subject turn it on, and the public key is compared with the private one', () => {
  const env = { WEBPUSH_VAPID_PRIVATE_KEY: PRIVATE, WEBPUSH_VAPID_PUBLIC_KEY: PUBLIC, WEBPUSH_SUBJECT: SUBJECT };
  expect(loadConfig(env).providers.webpush).toEqual({ vapidKey: PRIVATE, subject: SUBJECT, origins: [] });
  const origins = { WEBPUSH_ORIGINS: 'https://push.example.com, https://127.0.0.1:8443/' };
  expect(loadConfig({ ...env, ...origins }).providers.webpush).toMatchObject({
    origins: ['https://push.example.com', 'https://127.0.0.1:8443'],
  });
  expect(loadConfig(origins).providers).not.toHaveProperty('webpush');
});

test('the key may be in a file, as base64url or PEM, and means the same public key', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'pushpacer-test-'));
  onTestFinished(() => rm(dir, { recursive: true }));
  const { privateKey } = readVapidKey(PRIVATE) ?? {};
  const pem = privateKey?.export({ type: 'pkcs8', format: 'pem' }) as string;
  for (const text of [
    `${PRIVATE}\n`,
    `${PRIVATE}=`,
    pem,
    privateKey?.export({ type: 'sec1', format: 'pem' }) as string,
  ]) {
    await writeFile(join(dir, 'key'), text);
    const env = { WEBPUSH_VAPID_PRIVATE_KEY_FILE: join(dir, 'key'), WEBPUSH_SUBJECT: SUBJECT };
    expect(faultsOf({ ...env, WEBPUSH_VAPID_PUBLIC_KEY: PUBLIC })).toEqual([]);
    expect(readVapidKey(text)?.publicKey).toBe(PUBLIC);
  }
});

test('half of it is a fault, each with its variable', () => {
  expect(faultsOf({ WEBPUSH_SUBJECT: SUBJECT })).toEqual([
    'WEBPUSH_VAPID_PRIVATE_KEY_FILE: expected the VAPID private key (or WEBPUSH_VAPID_PRIVATE_KEY), since web push is configured, found nothing',
  ]);
  expect(faultsOf({ WEBPUSH_VAPID_PRIVATE_KEY: PRIVATE })).toEqual([
    'WEBPUSH_SUBJECT: expected a mailto: or https: URL, since web push is configured, found nothing',
  ]);
});

const other = generateKeyPairSync('ec', { namedCurve: 'P-384' }).privateKey.export({ type: 'pkcs8', format: 'pem' });

test.each([
  [
    { WEBPUSH_VAPID_PRIVATE_KEY: PUBLIC },
    /^WEBPUSH_VAPID_PRIVATE_KEY: expected a private key on P-256: .*, found something else$/,
  ],
  [{ WEBPUSH_VAPID_PRIVATE_KEY: other as string }, /^WEBPUSH_VAPID_PRIVATE_KEY: expected a private key on P-256/],
  [{ WEBPUSH_VAPID_PRIVATE_KEY: 'A'.repeat(43) }, /^WEBPUSH_VAPID_PRIVATE_KEY: expected a private key on P-256/],
  [
    { WEBPUSH_VAPID_PUBLIC_KEY: `BA${'A'.repeat(85)}` },
    /^WEBPUSH_VAPID_PUBLIC_KEY: expected the public key of the private key/,
  ],
  [
    { WEBPUSH_VAPID_PUBLIC_KEY: 'abc' },
    /^WEBPUSH_VAPID_PUBLIC_KEY: expected a public key: 87 characters of base64url, found "abc"/,
  ],
  [
    { WEBPUSH_VAPID_PRIVATE_KEY_FILE: '/nowhere/key' },
    /^WEBPUSH_VAPID_PRIVATE_KEY: expected either .* or .*, found both/,
  ],
  [{ WEBPUSH_SUBJECT: 'push@example.com' }, /^WEBPUSH_SUBJECT: expected mailto:you@example.com or https/],
  [{ WEBPUSH_SUBJECT: 'mailto:push@localhost' }, /^WEBPUSH_SUBJECT: expected .* with a full host name/],
  [
    { WEBPUSH_ORIGINS: 'https://ana:geheim@push.example.com' },
    /^WEBPUSH_ORIGINS: expected https:\/\/ URLs .*, found a string of 35 characters$/,
  ],
  [{ WEBPUSH_ORIGINS: 'http://push.example.com' }, /^WEBPUSH_ORIGINS: expected/],
  [{ WEBPUSH_CA_FILE: '/nowhere/ca.pem' }, /^WEBPUSH_CA_FILE: expected a file that can be read/],
])('%j is a fault that shows no secret', (change, fault) => {
  const faults = faultsOf({ WEBPUSH_VAPID_PRIVATE_KEY: PRIVATE, WEBPUSH_SUBJECT: SUBJECT, ...change });
  expect(faults[0]).toMatch(fault);
  expect(faults.join()).not.toMatch(/geheim|AAAAAAAA/);
  expect(faults.join()).not.toContain(PRIVATE);
});
