import { createHttp2Provider } from '../sender/http2-provider.ts';
import type { Provider } from '../provider.ts';
import { parseEndpoint, trustBeside } from '../sender/endpoint.ts';
import { createSender, type SenderOptions } from '../sender/sender.ts';
import { readFcmAnswer } from './answers.ts';
import { encodeFcm } from './encode.ts';
import { createGoogleCredential, createStaticCredential } from './sign-in.ts';

type Tuning = Omit<SenderOptions, 'endpoint' | 'secureContext'>;

export interface FcmOptions extends Tuning {
  readonly projectId: string;
  /** A service account's JSON; Google's application default credentials where left out. Not used with an endpoint of one's own. */
  readonly credentials?: unknown;
  /** `https://fcm.googleapis.com`, or a server of one's own: no sign-in happens there. */
  readonly endpoint: string;
  /** PEM of a CA to trust beside the system's. */
  readonly ca?: string | undefined;
  /** The Android channel of silent alerts, which the app makes with low importance. `silent` unless told. */
  readonly silentChannelId?: string | undefined;
  /** Epoch milliseconds. */
  readonly now?: (() => number) | undefined;
}

const FCM_HOST = 'fcm.googleapis.com';

/**
 * FCM: HTTP/2, an OAuth token, `POST /v1/projects/<id>/messages:send`.
 *
 * @throws InputError where the endpoint or the service account does not fit; it tells nothing that is in them.
 */
export function createFcmProvider(options: FcmOptions): Provider {
  const { projectId, credentials, endpoint, ca, silentChannelId = 'silent', now = Date.now, ...tuning } = options;
  const target = parseEndpoint(endpoint, 'fcm.endpoint');
  return createHttp2Provider({
    platform: 'fcm',
    credential: target.host === FCM_HOST ? createGoogleCredential(credentials, now) : createStaticCredential(now),
    sender: createSender({ ...tuning, endpoint: target, secureContext: trustBeside(ca) }),
    prepare: (push) => encodeFcm(push, { projectId, silentChannelId, nowMs: now() }),
    readAnswer: (answer, push) => readFcmAnswer(answer, push, now()),
    isExpired: ({ code }) => code === 'UNAUTHENTICATED' || code === 'http-401',
  });
}
