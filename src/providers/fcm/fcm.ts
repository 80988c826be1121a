import { createHttp2Provider } from '../sender/http2-provider.ts';
import type { Provider } from '../provider.ts';
import { parseEndpoint, trustBeside } from '../sender/endpoint.ts';
import { createSender, type SenderOptions } from '../sender/sender.ts';
import { createThirdPartyWatch, readFcmAnswer } from './answers.ts';
import { encodeFcm } from './encode.ts';
import { SILENT_CHANNEL } from './message.ts';
import { createGoogleCredential, createStaticCredential } from './sign-in.ts';

type Tuning = Omit<SenderOptions, 'endpoint' | 'secureContext'>;

export interface FcmOptions extends Tuning {
  readonly projectId: string;
  /** A service account's JSON; without it Google's application default credentials. Not used with another endpoint. */
  readonly credentials?: unknown;
  /** `https://fcm.googleapis.com`, or another server, where no sign-in happens. */
  readonly endpoint: string;
  /** PEM of one more CA to trust, in addition to the system's. */
  readonly ca?: string | undefined;
  /** The Android channel for silent alerts, which the app must create with low importance. Default: `silent`. */
  readonly silentChannelId?: string | undefined;
  /** Epoch milliseconds. */
  readonly now?: (() => number) | undefined;
}

const FCM_HOST = 'fcm.googleapis.com';

/**
 * FCM: HTTP/2, an OAuth token, `POST /v1/projects/<id>/messages:send`.
 *
 * @throws InputError if the endpoint or the service account is not usable; the error shows nothing of their content.
 */
export function createFcmProvider(options: FcmOptions): Provider {
  const { projectId, credentials, endpoint, ca, silentChannelId = SILENT_CHANNEL, now = Date.now, ...tuning } = options;
  const target = parseEndpoint(endpoint, 'fcm.endpoint');
  const watched = createThirdPartyWatch();
  return createHttp2Provider({
    platform: 'fcm',
    credential: target.host === FCM_HOST ? createGoogleCredential(credentials, now) : createStaticCredential(now),
    sender: createSender({ ...tuning, endpoint: target, secureContext: trustBeside(ca) }),
    prepare: (push) => encodeFcm(push, { projectId, silentChannelId, nowMs: now() }),
    readAnswer: (answer, push) => {
      const nowMs = now();
      return watched(readFcmAnswer(answer, push, nowMs), push.notification.recipientId, nowMs);
    },
    isExpired: ({ code }) => code === 'UNAUTHENTICATED' || code === 'http-401',
  });
}
