import { createPrivateKey } from 'node:crypto';
import type { Notification } from 'apn';
import { InputError } from '../domain/faults.ts';
import { ApnsLink } from './apns-link.ts';
import { APNS_MAX_PAYLOAD_BYTES, apnsMessage } from './apns-message.ts';
import { APNS_ACCEPTED, APNS_REPLIES, apnsReply } from './apns-replies.ts';
import { calmRenewals } from './apns-token.ts';
import { encode } from './apns-types.ts';
import { checkConnections, parseEndpoint, trustBeside } from './endpoint.ts';
import type { Prepared, Provider, Push, Reply } from './provider.ts';
import { tryOnce } from './wire.ts';
import type { Wire } from './wire.ts';

export interface ApnsOptions {
  /** The .p8 key: PEM, an EC key on P-256. */
  readonly key: string;
  readonly keyId: string;
  readonly teamId: string;
  /** The app's bundle id. */
  readonly topic: string;
  /** `https://api.push.apple.com`, `https://api.sandbox.push.apple.com`, or a server of one's own. */
  readonly endpoint: string;
  /** PEM of a CA to trust beside the system's. */
  readonly ca?: string | undefined;
  /** A send without an answer after this is given up; connecting is included. 10 s unless told. */
  readonly requestTimeoutMs?: number | undefined;
  /** One carries some 10,000 sends a second; a second one takes over while the first is replaced. 2 unless told. */
  readonly connections?: number | undefined;
  /** How often warm connections are looked after. 30 s unless told. */
  readonly keepWarmMs?: number | undefined;
}

/**
 * APNs over the `apn` client. Never retries, with one exception: where APNs calls the JWT expired, it is renewed and
 * the send is done once more at once, because nothing was processed.
 *
 * @throws InputError where the key or the endpoint does not fit; it tells neither.
 */
export function createApnsProvider(options: ApnsOptions): Provider {
  const { key, keyId, teamId, topic, endpoint, ca } = options;
  const { requestTimeoutMs = 10_000, connections = 2, keepWarmMs = 30_000 } = options;
  checkKey(key);
  checkConnections(connections, 'apns.connections');
  const link = { key, keyId, teamId, topic, requestTimeoutMs, keepWarmMs };
  const target = { endpoint: parseEndpoint(endpoint, 'apns.endpoint'), secureContext: trustBeside(ca) };
  const links = Array.from({ length: connections }, () => new ApnsLink({ ...link, ...target }));
  shareToken(links);

  let turn = 0;
  const nextLink = (): ApnsLink => {
    turn += 1;
    const start = turn % links.length;
    const inTurn = [...links.slice(start), ...links.slice(0, start)];
    return inTurn.find((candidate) => candidate.isReady) ?? (inTurn[0] as ApnsLink);
  };
  const sendOn = async (chosen: ApnsLink, message: Notification, push: Push, wire: Wire): Promise<Reply> => {
    const failure = await chosen.send(message, push.device.token);
    if (wire.isCut) chosen.doubt();
    return failure === undefined ? APNS_ACCEPTED : apnsReply(failure, { push, nowMs: Date.now(), ...tried(wire) });
  };
  const send = async (message: Notification, push: Push, wire: Wire): Promise<Reply> => {
    const chosen = nextLink();
    const reply = await sendOn(chosen, message, push, wire);
    // On the same connection, which alone knows that its token has expired.
    if (reply.code !== 'ExpiredProviderToken' || wire.isCut) return reply;
    wire.begin();
    return sendOn(chosen, message, push, wire);
  };

  return {
    platform: 'apns',
    prepare(push: Push): Prepared {
      const message = apnsMessage(push, topic);
      const bytes = encode(message);
      if (bytes > APNS_MAX_PAYLOAD_BYTES) return { kind: 'refused', reply: tooLarge(bytes) };
      return {
        kind: 'ready',
        send: (options) => tryOnce((wire) => send(message, push, wire), { timeoutMs: requestTimeoutMs, ...options }),
      };
    },
    async warm() {
      await Promise.all(links.map((candidate) => candidate.warm()));
    },
    async close() {
      await Promise.all(links.map((candidate) => candidate.close()));
    },
  };
}

function tried({ answer, mayHaveArrived }: Wire) {
  return { answer, mayHaveArrived };
}

function tooLarge(bytes: number): Reply {
  const detail = `payload: expected at most ${APNS_MAX_PAYLOAD_BYTES} bytes, found ${bytes}`;
  return { meaning: 'rejected', alerted: 'no', ...APNS_REPLIES['PayloadTooLarge'], code: 'PayloadTooLarge', detail };
}

function shareToken([first, ...others]: readonly ApnsLink[]): void {
  if (first === undefined) return;
  calmRenewals(first.token, () => performance.now());
  for (const other of others) other.token = first.token;
}

/** The client takes what is no PEM for a file's name, and signs with a key of the wrong kind only to be refused later. */
function checkKey(key: string): void {
  if (isP256(key)) return;
  const expected = 'a private EC key on P-256, as PEM';
  throw new InputError('APNs', [{ path: 'apns.key', expected, found: `a string of ${key.length} characters` }]);
}

function isP256(key: string): boolean {
  try {
    const { asymmetricKeyType, asymmetricKeyDetails } = createPrivateKey(key);
    return asymmetricKeyType === 'ec' && asymmetricKeyDetails?.namedCurve === 'prime256v1';
  } catch {
    return false;
  }
}
