// Posts a webhook, again and again, until the receiver accepts it.
import { setTimeout as sleep } from 'node:timers/promises';
import { headersOf, type Webhook } from './webhook.ts';

export interface PostOptions {
  readonly url: string;
  /** The secret without `whsec_`. */
  readonly key: string;
  /** The wait after the first failure; it doubles with each one. Milliseconds. */
  readonly retryBaseMs: number;
  /** Fires when the relay stops: then it rejects. */
  readonly signal: AbortSignal;
}

const ANSWER_TIMEOUT_MS = 15_000;
const MAX_BACKOFF_MS = 300_000;
/** The longest `Retry-After` that is obeyed. */
const MAX_RETRY_AFTER_MS = 3_600_000;

/** Resolves after an answer 2xx. Each other answer is a failure, also 4xx: a receiver that is mended then misses nothing. */
export async function postUntilAccepted(webhook: Webhook, options: PostOptions): Promise<void> {
  for (let tries = 1; ; tries += 1) {
    const failure = await post(webhook, options);
    if (failure === undefined) return;
    options.signal.throwIfAborted();
    const backoffMs = Math.min(MAX_BACKOFF_MS, options.retryBaseMs * 2 ** (tries - 1));
    const waitMs = Math.max(failure.retryAfterMs, backoffMs * (0.5 + Math.random() / 2));
    console.error(`${webhook.id}: ${failure.what}; again in ${(waitMs / 1_000).toFixed(1)} s`);
    await sleep(waitMs, undefined, { signal: options.signal });
  }
}

interface Failure {
  readonly what: string;
  readonly retryAfterMs: number;
}

/** One try; undefined if the receiver accepted it. */
async function post(
  webhook: Webhook,
  { url, key, signal }: PostOptions,
): Promise<Failure | undefined> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers: headersOf(webhook, key, new Date()),
      body: webhook.body,
      redirect: 'manual', // a redirect is a failure: the outcome is for this address only
      signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_TIMEOUT_MS)]),
    });
    await response.body?.cancel();
    if (response.ok) return undefined;
    const retryAfterMs = retryAfterOf(response.headers.get('retry-after'));
    return { what: `the receiver answered ${response.status}`, retryAfterMs };
  } catch (error) {
    const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error;
    const { code, message } = cause as { readonly code?: unknown; readonly message?: string };
    return { what: message || String(code), retryAfterMs: 0 }; // of several addresses only the code says why
  }
}

/** Seconds or a date (RFC 9110) → milliseconds; 0 for none. */
function retryAfterOf(header: string | null): number {
  if (header === null) return 0;
  const ms = /^\d+$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now();
  return Number.isFinite(ms) ? Math.min(MAX_RETRY_AFTER_MS, Math.max(0, ms)) : 0;
}
