import { Agent } from 'node:https';
import { cert, type ServiceAccount } from 'firebase-admin/app';
import { gcpMetadata, GoogleAuth, JWT, type JWTOptions } from 'google-auth-library';
import type { FcmDevice } from '../../notification/types.ts';
import { InputError } from '../../domain/faults.ts';
import { errorChain, withoutCredentials } from '../../notification/redact.ts';
import { createCredential, type Credential, type Unreached } from '../credential.ts';
import type { Provider, Prepared, Push, Reply } from '../provider.ts';
import { refusedAsTooLarge } from '../replies.ts';
import { parseEndpoint, trustBeside, isTlsError } from '../sender/result.ts';
import { createHttp2Provider, createSender, type SenderTuning } from '../sender/sender.ts';
import { createThirdPartyWatch, FCM_ANSWERS, readFcmAnswer } from './answers.ts';
import { FCM_MAX_PAYLOAD_BYTES, fcmMessage, fcmPayloadBytes } from '../../notification/devices/fcm/payload.ts';

export interface FcmOptions extends SenderTuning {
  readonly projectId: string;
  /** A service account's JSON. Default: Google's application default credentials. Not used with another endpoint. */
  readonly credentials?: unknown;
  /** `https://fcm.googleapis.com`, or another server, at which no sign-in happens. */
  readonly endpoint: string;
  /** One more CA to trust, in addition to the system's, as PEM. */
  readonly ca?: string | undefined;
  /** Whether alerts go to Android as remote notifications (`android_v2`). Default: false. */
  readonly androidV2?: boolean | undefined;
  /** Epoch milliseconds. */
  readonly now?: (() => number) | undefined;
}

const FCM_HOST = 'fcm.googleapis.com';

/**
 * The provider FCM: HTTP/2, an OAuth token, `POST /v1/projects/<id>/messages:send`.
 *
 * @throws InputError if the endpoint or the service account is not usable; the error shows nothing of their content.
 */
export function createFcmProvider(options: FcmOptions): Provider {
  const { projectId, credentials, endpoint, ca, androidV2, now = Date.now, ...tuning } = options;
  const target = parseEndpoint(endpoint, 'fcm.endpoint');
  const watched = createThirdPartyWatch();
  return createHttp2Provider({
    platform: 'fcm',
    credential: target.host === FCM_HOST ? createGoogleCredential(credentials, projectId, now) : STATIC_CREDENTIAL,
    sender: createSender({ ...tuning, endpoint: target, secureContext: trustBeside(ca) }),
    prepare: (push) => encodeFcm(push, { projectId, androidV2 }, now()),
    readAnswer: (answer, push) => {
      const nowMs = now();
      return watched(readFcmAnswer(answer, push, nowMs), push.notification.recipientId, nowMs);
    },
    isExpired: ({ code }) => code === 'UNAUTHENTICATED' || code === 'http-401',
  });
}

/** A push as a request to FCM at `nowMs` (epoch milliseconds). */
export function encodeFcm(
  push: Push,
  { projectId, androidV2 }: Pick<FcmOptions, 'projectId' | 'androidV2'>,
  nowMs: number,
): Prepared {
  const { notification, pushId, silent } = push;
  const device = push.device as FcmDevice; // the platform says so
  const message = fcmMessage(notification, { device, pushId, silent, nowMs, androidV2 });
  const body = JSON.stringify({ message });
  // The payload is a part of the body, so it is counted only if the whole body is larger than the limit.
  const bytes = Buffer.byteLength(body) > FCM_MAX_PAYLOAD_BYTES ? fcmPayloadBytes(message) : 0;
  const tooLarge = refusedAsTooLarge('payload-too-large', bytes, FCM_MAX_PAYLOAD_BYTES);
  if (tooLarge !== undefined) return tooLarge;
  return {
    kind: 'ready',
    encoded: {
      push,
      path: `/v1/projects/${projectId}/messages:send`,
      headers: { 'content-type': 'application/json' },
      body,
    },
  };
}

const RENEW_BELOW_MS = 10 * 60_000;
const LEAST_RENEWAL_MS = 60_000;

/** The only scope: to send messages. firebase-admin always asks for `cloud-platform` and more. */
const SCOPE = 'https://www.googleapis.com/auth/firebase.messaging';

/**
 * Google's sign-in, by Google's own library, which firebase-admin uses too: with a service account's JSON, or else by
 * application default credentials (workload identity, metadata server). Throws an InputError if the JSON is not usable.
 */
export function createGoogleCredential(
  serviceAccount: unknown,
  projectId: string,
  now: () => number,
  // Checks certificates even if the environment (NODE_TLS_REJECT_UNAUTHORIZED) turns that off.
  agent = new Agent({ rejectUnauthorized: true }),
): Credential {
  const account = serviceAccount === undefined ? undefined : checked(serviceAccount);
  const clientOptions = { transporterOptions: { agent } };
  // A new client each time, because a client caches its token, even a token that the provider calls expired.
  const open = () => {
    if (account !== undefined) return Promise.resolve(new JWT({ ...account, scopes: [SCOPE], ...clientOptions }));
    // The library remembers for ever that no metadata server answered, but a pod may start before its metadata server.
    gcpMetadata.resetIsAvailableCache();
    // Without a project the library looks for one: it runs the program gcloud, which may take seconds, and asks the metadata server.
    return new GoogleAuth({ scopes: [SCOPE], projectId, clientOptions }).getClient();
  };
  return createCredential({
    now,
    renewBelowMs: RENEW_BELOW_MS,
    leastRenewalMs: LEAST_RENEWAL_MS,
    async signIn() {
      const client = await open();
      const { token } = await client.getAccessToken();
      const { expiry_date: expiresAt } = client.credentials;
      if (typeof token !== 'string' || token === '') throw new Error('Google gave no access token');
      if (typeof expiresAt !== 'number') throw new Error('Google did not say when its access token ends');
      return { authorization: `Bearer ${token}`, lifetimeMs: expiresAt - Date.now() }; // the library computes it from the real time
    },
    failureReply: signInReply,
    unreachedBy: (error) => signInUnreached(error, account === undefined ? DEFAULT_SIGN_IN : TOKEN_HOST),
  });
}

/** For other endpoints: the fixed token that Google's own emulators take, so that no secret is sent to another host. */
const STATIC_CREDENTIAL: Credential = {
  current: () => 'Bearer owner',
  obtain: () => Promise.resolve('Bearer owner'),
  replace: () => Promise.resolve(false),
};

/** The parts of the account that the library needs. firebase-admin checks that they are there and that the key is a key. */
function checked(serviceAccount: unknown): Pick<JWTOptions, 'email' | 'key'> {
  try {
    // `cert` would read a string as a file name, and it changes the object that it is given.
    if (typeof serviceAccount !== 'object' || serviceAccount === null)
      throw new TypeError(`a ${typeof serviceAccount}`);
    cert(structuredClone(serviceAccount));
    const account: ServiceAccount & Readonly<Record<string, unknown>> = { ...serviceAccount };
    const { clientEmail = account['client_email'], privateKey = account['private_key'] } = account;
    return { email: String(clientEmail), key: String(privateKey) };
  } catch (error) {
    // firebase-admin's message names the missing field and shows nothing of the file's content.
    const found = error instanceof Error ? error.message : 'something else';
    throw new InputError('FCM', [{ path: 'fcm.credentials', expected: "a service account's JSON", found }]);
  }
}

/** What a fault names if the error contains no host: for a service account, and for default credentials. */
const TOKEN_HOST = 'oauth2.googleapis.com';
const DEFAULT_SIGN_IN = 'the sign-in of the application default credentials';

interface ErrorLike {
  readonly code?: unknown;
  readonly cause?: unknown;
  readonly message?: unknown;
  readonly response?: { readonly status?: unknown };
  /** The request of Google's HTTP client. */
  readonly config?: { readonly url?: unknown };
}

/** `sign-in-refused` if Google refused, `sign-in-unreachable` if Google could not be asked or is overloaded. */
export function signInReply(error: unknown): Reply {
  const code = awayBy(error) === undefined ? 'sign-in-refused' : 'sign-in-unreachable';
  return { ...FCM_ANSWERS.signIn[code], code, detail: detailOf(error) };
}

/** The host that a sign-in could not reach, and why. Undefined if Google refused the sign-in. */
function signInUnreached(error: unknown, defaultHost: string): Unreached | undefined {
  const cause = awayBy(error);
  if (cause === undefined) return undefined;
  const url = linksOf(error)
    .map(({ config }) => String(config?.url))
    .find((text) => URL.canParse(text));
  return { host: url === undefined ? defaultHost : new URL(url).host, cause, detail: detailOf(error) };
}

/** Google's library says this if it found no credentials, and also if the metadata server does not answer. */
const NO_CREDENTIALS = /^Could not load the default credentials/;

/**
 * Why Google could not be asked, or is overloaded: `ENOTFOUND`, `CERT_HAS_EXPIRED`, `HTTP 503`, `NO_DEFAULT_CREDENTIALS`;
 * undefined if Google answered.
 */
function awayBy(error: unknown): string | undefined {
  const links = linksOf(error);
  const status = links.map(({ response }) => response?.status).find((value) => typeof value === 'number');
  if (status !== undefined) return status >= 500 || status === 429 ? `HTTP ${status}` : undefined;
  if (links.some(({ message }) => NO_CREDENTIALS.test(String(message)))) return 'NO_DEFAULT_CREDENTIALS';
  return links.map(({ code }) => code).find(isNetworkCode);
}

function detailOf(error: unknown): string {
  return withoutCredentials(errorChain(error)).slice(0, 300);
}

/** The error and its causes, the outermost first. */
function linksOf(error: unknown): ErrorLike[] {
  const links: ErrorLike[] = [];
  for (let link = error; isErrorLike(link) && links.length < 10; link = link.cause) links.push(link);
  return links;
}

function isErrorLike(value: unknown): value is ErrorLike {
  return typeof value === 'object' && value !== null;
}

function isNetworkCode(code: unknown): code is string {
  if (typeof code !== 'string' || code.startsWith('ERR_OSSL_')) return false; // this code is about a key that cannot sign
  return /^(E[A-Z_]+|ERR_SOCKET_.*|UND_ERR_.*)$/.test(code) || isTlsError(code);
}
