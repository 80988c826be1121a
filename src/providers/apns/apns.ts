import { createHttp2Provider } from '../sender/http2-provider.ts';
import type { Provider } from '../provider.ts';
import { parseEndpoint, trustBeside } from '../sender/endpoint.ts';
import { createSender, type SenderOptions } from '../sender/sender.ts';
import { readApnsAnswer } from './answers.ts';
import { encodeApns } from './encode.ts';
import { createApnsCredential, type ApnsKey } from './token.ts';

type Tuning = Omit<SenderOptions, 'endpoint' | 'secureContext'>;

export interface ApnsOptions extends ApnsKey, Tuning {
  /** The app's bundle id. */
  readonly topic: string;
  /** `https://api.push.apple.com`, `https://api.sandbox.push.apple.com`, or another server. */
  readonly endpoint: string;
  /** PEM of one more CA to trust, in addition to the system's. */
  readonly ca?: string | undefined;
  /** Epoch milliseconds. */
  readonly now?: (() => number) | undefined;
}

/**
 * APNs: HTTP/2, a JWT, `POST /3/device/<token>`.
 *
 * @throws InputError if the key or the endpoint is not usable; the error shows neither.
 */
export function createApnsProvider(options: ApnsOptions): Provider {
  const { key, keyId, teamId, topic, endpoint, ca, now = Date.now, ...tuning } = options;
  return createHttp2Provider({
    platform: 'apns',
    credential: createApnsCredential({ key, keyId, teamId }, now),
    sender: createSender({
      ...tuning,
      endpoint: parseEndpoint(endpoint, 'apns.endpoint'),
      secureContext: trustBeside(ca),
    }),
    prepare: (push) => encodeApns(push, topic, now()),
    readAnswer: (answer, push) => readApnsAnswer(answer, push, now()),
    isExpired: ({ code }) => code === 'ExpiredProviderToken',
  });
}
