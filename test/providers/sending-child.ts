import { readFile } from 'node:fs/promises';
import { createApnsProvider } from '../../src/providers/apns/apns.ts';
import type { Reply } from '../../src/providers/provider.ts';
import { makePush } from '../support/push.ts';

/** What the parent asks for: one send, and one reply. */
export interface SendOrder {
  /** Given back with the reply. */
  readonly id: number;
  /** The send's `sendBy`, counted from `since`; none where left out. */
  readonly sendInMs?: number;
  /** Epoch milliseconds; when the order is read where left out. */
  readonly since?: number;
  /** The process does nothing for so long, from when the request has left. */
  readonly blockMs?: number;
  /** The process does nothing for so long before the send; what its sockets get meanwhile it reads afterwards. */
  readonly blockFirstMs?: number;
}

export type SendingMessage =
  | { readonly kind: 'ready'; readonly id?: number }
  | { readonly kind: 'reply'; readonly id: number; readonly reply: Reply };

const { env } = process;
const timeout = env['REQUEST_TIMEOUT_MS'];
const provider = createApnsProvider({
  ca: env['WITHOUT_CA'] === undefined ? await readFile(env['CA_FILE'] ?? '', 'utf8') : undefined,
  requestTimeoutMs: timeout === undefined ? undefined : Number(timeout),
  endpoint: env['APNS_ENDPOINT'] ?? '',
  key: await readFile(env['APNS_KEY_FILE'] ?? '', 'utf8'),
  keyId: env['APNS_KEY_ID'] ?? '',
  teamId: env['APNS_TEAM_ID'] ?? '',
  topic: env['APNS_TOPIC'] ?? '',
});
const report = (message: SendingMessage): void => void process.send?.(message);
const block = (forMs: number): void => void Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, forMs);

process.on('message', ({ id, sendInMs, since, blockMs, blockFirstMs }: SendOrder) => {
  if (blockFirstMs !== undefined) block(blockFirstMs);
  const from = since === undefined ? performance.now() : since - performance.timeOrigin;
  const prepared = provider.prepare(makePush());
  if (prepared.kind !== 'ready') throw new Error('the push was refused');
  const sendBy = sendInMs === undefined ? undefined : from + sendInMs;
  void provider.send(prepared.encoded, { sendBy }).then((reply) => report({ kind: 'reply', id, reply }));
  // Node writes a request at the end of the turn of the event loop.
  if (blockMs !== undefined) setImmediate(() => setImmediate(block, blockMs));
});
process.once('disconnect', () => process.exit(0));
report({ kind: 'ready' });
