import { readFile } from 'node:fs/promises';
import { createApnsProvider } from '../../src/providers/apns.ts';
import { createFcmProvider } from '../../src/providers/fcm.ts';
import type { Provider, Reply } from '../../src/providers/provider.ts';
import { Wire } from '../../src/providers/wire.ts';
import { makePush } from '../support/push.ts';

/** What the parent asks for; one reply each. */
export interface SendOrder {
  /** Given back with the reply. */
  readonly id?: number;
  readonly leaveInMs?: number;
  /** When the slot began: `leaveInMs` counts from there and not from when this is read. Epoch milliseconds. */
  readonly since?: number;
  /** The process stands still for so long after the last look whether it may leave, and before anything is written. */
  readonly stallMs?: number;
  /** Sends without an end, so many at a time; each alert's body is its `leaveBy` in epoch milliseconds. */
  readonly forever?: number;
}

export type SenderMessage =
  | { readonly kind: 'ready' | 'sending'; readonly id?: undefined }
  | { readonly kind: 'reply'; readonly id?: number | undefined; readonly reply: Reply };

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
const standStill = (forMs: number): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, forMs);

/** Both clients make their request in the same turn in which they look, and neither writes it before the next microtask. */
function stallAfterLook(stallMs: number): void {
  const { prototype } = Wire;
  const mayLeave = Object.getOwnPropertyDescriptor(prototype, 'mayLeave')?.value as () => boolean;
  prototype.mayLeave = function (this: Wire) {
    prototype.mayLeave = mayLeave;
    queueMicrotask(() => standStill(stallMs));
    return mayLeave.call(this);
  };
}

function send(leaveBy: number | undefined, body = 'Field trip forms are due'): Promise<Reply> {
  const alert = { title: 'Room 12', body };
  const prepared = provider.prepare(makePush({ platform: platform === 'fcm' ? 'fcm' : 'apns', alert }));
  if (prepared.kind !== 'ready') throw new Error('the push was refused');
  return prepared.send({ leaveBy });
}

async function sendForever(leaveInMs: number): Promise<never> {
  for (;;) {
    const leaveBy = performance.now() + leaveInMs;
    await send(leaveBy, String(performance.timeOrigin + leaveBy));
  }
}

process.on('message', ({ id, leaveInMs, since, stallMs, forever }: SendOrder) => {
  const start = since === undefined ? performance.now() : since - performance.timeOrigin;
  const leaveBy = leaveInMs === undefined ? undefined : start + leaveInMs;
  if (stallMs !== undefined) stallAfterLook(stallMs);
  if (forever === undefined) void send(leaveBy).then((reply) => tell({ kind: 'reply', id, reply }));
  for (let count = 0; count < (forever ?? 0); count += 1) void sendForever(leaveInMs ?? 0);
  tell({ kind: 'sending' });
});
process.once('disconnect', () => process.exit(0));
tell({ kind: 'ready' });
