import type { ProviderToken } from './apns-types.ts';

/** APNs refuses a token that replaces one younger than this with TooManyProviderTokenUpdates. */
const MIN_TOKEN_AGE_S = 20 * 60;

/**
 * Lets the client renew its token when it is due, or when APNs calls it expired, but for the latter once in 20 minutes
 * only: where a clock is wrong, every new token is refused as well, and renewing without end would lock out all of the
 * team's connections.
 *
 * @param nowMs any clock that does not step back
 */
export function calmRenewals(token: ProviderToken, nowMs: () => number): void {
  const renew = token.regenerate.bind(token);
  let renewedAtMs = -Infinity;
  token.regenerate = (generation) => {
    if (generation !== token.generation) return;
    if (!token.isExpired(MIN_TOKEN_AGE_S) && nowMs() - renewedAtMs < MIN_TOKEN_AGE_S * 1_000) return;
    renewedAtMs = nowMs();
    renew(generation);
  };
}
