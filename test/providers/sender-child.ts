import { readFile } from 'node:fs/promises';
import { createApnsProvider } from '../../src/providers/apns.ts';
import { createFcmProvider } from '../../src/providers/fcm.ts';
import type { Provider, Reply } from '../../src/providers/provider.ts';
import { makePush } from '../support/push.ts';

/** What the parent asks for; one reply each. */
export interface SendOrder {
  readonly leaveInMs?: number;
  /** When the slot began: `leaveInMs` counts from there and not from when this is read. Epoch milliseconds. */
  readonly since?: number;
}

export type SenderMessage = { readonly kind: 'ready' | 'sending' } | { readonly kind: 'reply'; readonly reply: Reply };

const { PLATFORM: platform, CA_FILE: caFile = '', REQUEST_TIMEOUT_MS: timeout, WITHOUT_CA: isWithoutCa } = process.env;

async function openProvider(): Promise<Provider> {
  const { env } = process;
  const ca = isWithoutCa === undefined ? await readFile(caFile, 'utf8') : undefined;
  const shared = { ca, connections: 1, requestTimeoutMs: Number(timeout ?? 5_000) };
  if (platform === 'fcm') {
    return createFcmProvider({
      ...shared,
      endpoint: env['FCM_ENDPOINT'] ?? '',
      projectId: env['FCM_PROJECT_ID'] ?? '',
    });
  }
  return createApnsProvider({
    ...shared,
    endpoint: env['APNS_ENDPOINT'] ?? '',
    key: await readFile(env['APNS_KEY_FILE'] ?? '', 'utf8'),
    keyId: env['APNS_KEY_ID'] ?? '',
    teamId: env['APNS_TEAM_ID'] ?? '',
    topic: env['APNS_TOPIC'] ?? '',
  });
}

const provider = await openProvider();
const tell = (message: SenderMessage): void => void process.send?.(message);
process.on('message', ({ leaveInMs, since }: SendOrder) => {
  const prepared = provider.prepare(makePush({ platform: platform === 'fcm' ? 'fcm' : 'apns' }));
  if (prepared.kind !== 'ready') throw new Error('the push was refused');
  const start = since === undefined ? performance.now() : since - performance.timeOrigin;
  const leaveBy = leaveInMs === undefined ? undefined : start + leaveInMs;
  void prepared.send({ leaveBy }).then((reply) => {
    tell({ kind: 'reply', reply });
  });
  tell({ kind: 'sending' });
});
process.once('disconnect', () => process.exit(0));
tell({ kind: 'ready' });
