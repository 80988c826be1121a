import { Agent } from 'node:https';
import { cert } from 'firebase-admin/app';
import type { Credential } from 'firebase-admin/app';
import { InputError } from '../domain/faults.ts';
import { checkConnections, parseEndpoint, trustBeside, VERIFIED } from './endpoint.ts';
import { FCM_HOST, FcmAgent } from './fcm-agent.ts';
import { createFcmClient } from './fcm-client.ts';
import { renewAhead, STATIC_CREDENTIAL } from './fcm-credential.ts';
import { FCM_MAX_PAYLOAD_BYTES, fcmMessage, fcmPayloadBytes } from './fcm-message.ts';
import type { FcmMessage } from './fcm-message.ts';
import { FCM_ACCEPTED, fcmReply } from './fcm-replies.ts';
import type { Provider, Push, Reply } from './provider.ts';
import { transportReply } from './transport-replies.ts';
import { tryOnce } from './wire.ts';
import type { Wire } from './wire.ts';

export interface FcmOptions {
  readonly projectId: string;
  /** A service account's JSON. Not looked at where the endpoint is not Google's: no sign-in happens there. */
  readonly credentials?: unknown;
  /** `https://fcm.googleapis.com`, or a server of one's own whose certificate carries that name. */
  readonly endpoint: string;
  /** PEM of a CA to trust beside the system's. */
  readonly ca?: string | undefined;
  /** A send without an answer after this is given up; sign-in and connecting are included. 10 s unless told. */
  readonly requestTimeoutMs?: number | undefined;
  /** One for each send that is under way at once; more than that wait. 50 unless told. */
  readonly connections?: number | undefined;
  /** How often warm connections are looked after. 30 s unless told. */
  readonly keepWarmMs?: number | undefined;
  /** The Android channel of silent alerts, which the app makes with low importance. `silent` unless told. */
  readonly silentChannelId?: string | undefined;
  /** Epoch milliseconds. */
  readonly now?: (() => number) | undefined;
}

/**
 * FCM over firebase-admin's `send()`, one request a send, never a retry.
 *
 * @throws InputError where the endpoint or the service account does not fit; it tells nothing that is in them.
 */
export function createFcmProvider(options: FcmOptions): Provider {
  const { projectId, endpoint, ca, connections = 50, now = Date.now } = options;
  const { requestTimeoutMs = 10_000, keepWarmMs = 30_000, silentChannelId = 'silent' } = options;
  const target = parseEndpoint(endpoint, 'fcm.endpoint');
  checkConnections(connections, 'fcm.connections');
  const credential =
    target.host === FCM_HOST ? renewAhead(serviceAccount(options.credentials), now) : STATIC_CREDENTIAL;
  const agent = new FcmAgent({ endpoint: target, secureContext: trustBeside(ca), connections });
  const client = createFcmClient({ projectId, credential, agent });
  const underWay = new Set<Promise<Reply>>();
  let keeper: NodeJS.Timeout | undefined;
  let rehearsal: Promise<Reply> | undefined;

  const send = async (message: FcmMessage, push: Push, wire: Wire): Promise<Reply> => {
    try {
      const name = await client.send(message);
      return name === undefined ? transportReply('unreadable') : FCM_ACCEPTED;
    } catch (error) {
      return fcmReply(error, { push, mayHaveArrived: wire.mayHaveArrived, nowMs: now() });
    }
  };
  const fill = async (): Promise<Reply> => {
    // What goes wrong here goes wrong for the first send too, and there it has a reply.
    await Promise.allSettled([credential.getAccessToken(), agent.fill()]);
    return transportReply('unknown');
  };

  // The client's first send takes ten times as long as later ones: FCM looks at this one, and refuses its token.
  const rehearse = async (): Promise<Reply> => {
    await client.validate({ token: 'warm-up', notification: { title: 'warm-up' } }).catch(() => undefined);
    return transportReply('unknown');
  };

  return {
    platform: 'fcm',
    prepare(push) {
      const message = fcmMessage(push, { silentChannelId, nowMs: now() });
      const bytes = fcmPayloadBytes(message);
      if (bytes > FCM_MAX_PAYLOAD_BYTES) return { kind: 'refused', reply: tooLarge(bytes) };
      return {
        kind: 'ready',
        send(options) {
          const reply = tryOnce((wire) => send(message, push, wire), { timeoutMs: requestTimeoutMs, ...options });
          underWay.add(reply);
          return reply.finally(() => underWay.delete(reply));
        },
      };
    },
    async warm() {
      keeper ??= setInterval(() => void fill(), keepWarmMs).unref();
      await tryOnce(fill, { timeoutMs: requestTimeoutMs });
      rehearsal ??= tryOnce(rehearse, { timeoutMs: requestTimeoutMs });
      await rehearsal;
    },
    async close() {
      clearInterval(keeper);
      await Promise.all(underWay);
      await client.close();
    },
  };
}

function tooLarge(bytes: number): Reply {
  const detail = `payload: expected at most ${FCM_MAX_PAYLOAD_BYTES} bytes, found ${bytes}`;
  return { meaning: 'rejected', alerted: 'no', code: 'payload-too-large', detail };
}

function serviceAccount(credentials: unknown): Credential {
  try {
    // Text would be taken for a file's name, and the object is changed by its reader.
    if (typeof credentials === 'object' && credentials !== null)
      return cert(structuredClone(credentials), new Agent(VERIFIED));
    throw new TypeError(credentials === undefined ? 'nothing' : `a ${typeof credentials}`);
  } catch (error) {
    // firebase-admin names the missing field, and nothing that is in the file.
    const found = error instanceof Error ? error.message : 'something else';
    throw new InputError('FCM', [{ path: 'fcm.credentials', expected: "a service account's JSON", found }]);
  }
}
