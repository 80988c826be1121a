import { Agent } from 'node:https';
import { applicationDefault, cert, type Credential as GoogleCredential } from 'firebase-admin/app';
import { errorChain } from '../../domain/error-chain.ts';
import { InputError } from '../../domain/faults.ts';
import { withoutCredentials } from '../../domain/redact.ts';
import { createCredential, type Credential } from '../credential.ts';
import type { Reply } from '../provider.ts';
import type { ReplyTable } from '../replies.ts';

const RENEW_BELOW_MS = 10 * 60_000;
const LEAST_RENEWAL_MS = 60_000;

/** What a failed sign-in means. Google must give an access token before FCM can be asked. */
export const SIGN_IN_REPLIES = {
  'sign-in-refused': { meaning: 'later', alerted: 'no', unsent: true, trouble: 'auth' },
  'sign-in-unreachable': { meaning: 'later', alerted: 'no', retryAfterMs: 10_000, unsent: true, suspect: 'outage' },
} as const satisfies ReplyTable;

/**
 * Google's sign-in, by firebase-admin: with a service account's JSON, or without one by application default credentials
 * (workload identity, metadata server). Throws an InputError if the JSON is not usable.
 */
export function createGoogleCredential(serviceAccount: unknown, now: () => number): Credential {
  const open = (): GoogleCredential =>
    serviceAccount === undefined ? applicationDefault(agent()) : read(serviceAccount);
  open(); // so that a bad file is reported at the start
  return createCredential({
    now,
    renewBelowMs: RENEW_BELOW_MS,
    leastRenewalMs: LEAST_RENEWAL_MS,
    async signIn() {
      // A new object each time, because it caches its token, even one that the provider calls expired.
      const { access_token: token, expires_in: seconds } = await open().getAccessToken();
      return { authorization: `Bearer ${token}`, lifetimeMs: seconds * 1_000 };
    },
    failureReply: signInReply,
  });
}

/** For other endpoints: the fixed token that Google's own emulators take, so that no secret reaches another host. */
export function createStaticCredential(now: () => number): Credential {
  return createCredential({
    now,
    renewBelowMs: 0,
    leastRenewalMs: LEAST_RENEWAL_MS,
    signIn: () => Promise.resolve({ authorization: 'Bearer owner', lifetimeMs: Infinity }),
    failureReply: signInReply,
  });
}

/** Checks certificates even if the environment (NODE_TLS_REJECT_UNAUTHORIZED) turns that off. */
function agent(): Agent {
  return new Agent({ rejectUnauthorized: true });
}

function read(serviceAccount: unknown): GoogleCredential {
  try {
    // `cert` would take a string for a file name, and it changes the object that it is given.
    if (typeof serviceAccount === 'object' && serviceAccount !== null)
      return cert(structuredClone(serviceAccount), agent());
    throw new TypeError(`a ${typeof serviceAccount}`);
  } catch (error) {
    // firebase-admin's message names the missing field and shows nothing of the file's content.
    const found = error instanceof Error ? error.message : 'something else';
    throw new InputError('FCM', [{ path: 'fcm.credentials', expected: "a service account's JSON", found }]);
  }
}

interface ErrorLike {
  readonly code?: unknown;
  readonly cause?: unknown;
  readonly response?: { readonly status?: unknown };
}

/** `sign-in-refused` if Google refused, `sign-in-unreachable` if it could not be asked or is overloaded. */
export function signInReply(error: unknown): Reply {
  const chain: ErrorLike[] = [];
  for (let link = error; isErrorLike(link) && chain.length < 10; link = link.cause) chain.push(link);
  const status = chain.map(({ response }) => response?.status).find((value) => typeof value === 'number');
  const isAway = status === undefined ? chain.some(({ code }) => isNetworkCode(code)) : status >= 500 || status === 429;
  const code = isAway ? 'sign-in-unreachable' : 'sign-in-refused';
  return { ...SIGN_IN_REPLIES[code], code, detail: withoutCredentials(errorChain(error)).slice(0, 300) };
}

function isErrorLike(value: unknown): value is ErrorLike {
  return typeof value === 'object' && value !== null;
}

function isNetworkCode(code: unknown): boolean {
  return typeof code === 'string' && /^(E[A-Z_]+|ERR_(TLS|SSL|SOCKET)_.*|UND_ERR_.*)$/.test(code);
}
