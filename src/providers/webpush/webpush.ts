import { InputError } from '../../domain/faults.ts';
import type { Provider, Reach, Reply, Reserved } from '../provider.ts';
import { transportReply } from '../replies.ts';
import { parseEndpoint, trustBeside } from '../sender/endpoint.ts';
import { createHttp2Provider } from '../sender/http2-provider.ts';
import { createNegotiatedSender } from '../sender/negotiated-sender.ts';
import type { SenderOptions } from '../sender/sender.ts';
import { readWebpushAnswer } from './answers.ts';
import { encodeWebpush } from './encode.ts';
import { createOrigins } from './origins.ts';
import { createAllowed } from './services.ts';
import { createVapidCredential, readVapidKey, type VapidKey } from './vapid.ts';

type Tuning = Omit<SenderOptions, 'endpoint' | 'secureContext' | 'offersHttp1'>;

export interface WebpushOptions extends Tuning {
  /** The VAPID private key: 43 characters of base64url, or PEM. */
  readonly vapidKey: string;
  /** Whom a push service may ask: a `mailto:` or `https:` URL. */
  readonly subject: string;
  /** Push services to allow beside the known ones: `https://push.example.com`. */
  readonly origins: readonly string[];
  /** PEM of one more CA to trust, in addition to the system's. */
  readonly ca?: string | undefined;
  /** The most push services with open connections. Default: 64. */
  readonly maxOrigins?: number | undefined;
  /** The connections to a push service that got nothing for so long are closed. Default: 300,000 ms. */
  readonly idleMs?: number | undefined;
  /** Epoch milliseconds. */
  readonly now?: (() => number) | undefined;
}

/**
 * Web push: `POST` to the endpoint of a subscription, with a VAPID token for its push service. Each push service has its own
 * connections and its own token.
 *
 * @throws InputError if the key is not usable; the error does not show it.
 */
export function createWebpushProvider(options: WebpushOptions): Provider {
  const {
    vapidKey,
    subject,
    origins: more,
    ca,
    maxOrigins = 64,
    idleMs = 300_000,
    now = Date.now,
    ...tuning
  } = options;
  const key = usable(vapidKey);
  const secureContext = trustBeside(ca);
  const allowed = createAllowed(more);
  const isAllowed = (origin: string): boolean => allowed(origin) !== undefined;
  let isClosed = false;

  /** The provider for one push service. */
  function create(origin: string): Provider {
    const endpoint = parseEndpoint(origin, 'webpush.endpoint');
    return createHttp2Provider({
      platform: 'webpush',
      credential: createVapidCredential(origin, key, subject, now),
      sender: createNegotiatedSender({ ...tuning, endpoint, secureContext }),
      prepare,
      readAnswer: (answer, push) => readWebpushAnswer(answer, push, now()),
      isExpired: () => false, // the token is renewed an hour before its end
    });
  }

  /** A host that somebody made up is that subscription's own fault: it costs attempts. */
  function ofOrigin(reply: Reply, origin: string): Reply {
    if (reply.code !== 'host-not-found' || allowed(origin) !== 'below') return withHost(reply, origin);
    const { meaning, code, alerted, detail } = reply;
    return withHost({ meaning, code, alerted, ...(detail !== undefined && { detail }) }, origin);
  }

  function isMadeUp({ failure }: Reach, origin: string): boolean {
    return failure?.cause === 'ENOTFOUND' && allowed(origin) === 'below';
  }

  const prepare: Provider['prepare'] = (push) => encodeWebpush(push, { isAllowed, nowMs: now() });
  const origins = createOrigins({ create, max: maxOrigins, idleMs });

  return {
    platform: 'webpush',
    prepare,
    reserve(encoded) {
      if (isClosed) return { kind: 'none', reply: transportReply('closed') };
      const { origin = '' } = encoded;
      const reserved = origins.get(origin)?.reserve(encoded) ?? { kind: 'none', reply: transportReply('no-stream') };
      const checked = (found: Reserved): Reserved =>
        found.kind === 'none' ? { kind: 'none', reply: ofOrigin(found.reply, origin) } : found;
      return reserved instanceof Promise ? reserved.then(checked) : checked(reserved);
    },
    async send(encoded, sendOptions = {}) {
      const { origin = '' } = encoded;
      const send = (provider: Provider): Promise<Reply> => provider.send(encoded, sendOptions);
      const sent = isClosed ? undefined : origins.use(origin, send);
      if (sent !== undefined) return ofOrigin(await sent, origin);
      sendOptions.permit?.release();
      return transportReply(isClosed ? 'closed' : 'no-stream');
    },
    connect: () => Promise.resolve(), // which push services there are, only the devices say
    reach: () =>
      origins
        .all()
        .flatMap(([origin, provider]) =>
          provider
            .reach()
            .flatMap((found) => (isMadeUp(found, origin) ? [] : { ...found, server: new URL(origin).host })),
        ),
    abort: () => origins.abort(),
    close() {
      isClosed = true;
      return origins.close();
    },
  };
}

function usable(text: string): VapidKey {
  const key = readVapidKey(text);
  if (key !== undefined) return key;
  const expected = 'a private key on P-256: 43 characters of base64url, or PEM';
  throw new InputError('web push', [
    { path: 'webpush.vapidKey', expected, found: `a string of ${text.length} characters` },
  ]);
}

/** Names the push service where it refused or failed: an operator has to know which one, and its host is no secret. */
function withHost(reply: Reply, origin: string): Reply {
  const { meaning, code, suspect, unsent, detail } = reply;
  const isOwnFault = code === 'aborted' || (unsent === true && suspect === undefined);
  if (meaning === 'accepted' || isOwnFault) return reply;
  const { host } = new URL(origin);
  return { ...reply, detail: detail === undefined ? host : `${host}: ${detail}` };
}
