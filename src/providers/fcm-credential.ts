import type { Credential, GoogleOAuthAccessToken } from 'firebase-admin/app';

/** From here on a token is renewed, but still used: firebase-admin and Google's library renew in the last 5 minutes. */
const RENEW_BELOW_MS = 5 * 60_000;
/** From here on a send waits for the new one. */
const USE_ABOVE_MS = 30_000;

/**
 * Hands out the token at hand while the next one is fetched, so that no send waits for a sign-in that could have
 * happened before: otherwise one send an hour would take the time of two requests.
 */
export function renewAhead(source: Credential, nowMs: () => number): Credential {
  let held: { readonly token: string; readonly expiresAtMs: number } | undefined;
  let renewal: Promise<GoogleOAuthAccessToken> | undefined;
  const renew = (): Promise<GoogleOAuthAccessToken> => {
    renewal ??= source
      .getAccessToken()
      .then((fresh) => {
        held = { token: fresh.access_token, expiresAtMs: nowMs() + fresh.expires_in * 1_000 };
        return fresh;
      })
      .finally(() => (renewal = undefined));
    return renewal;
  };
  return {
    async getAccessToken() {
      const leftMs = held === undefined ? 0 : held.expiresAtMs - nowMs();
      if (held === undefined || leftMs <= USE_ABOVE_MS) return renew();
      // Where that fails, the next send tries again, and the last of them tells why.
      if (leftMs <= RENEW_BELOW_MS) renew().catch(() => undefined);
      return { access_token: held.token, expires_in: Math.floor(leftMs / 1_000) };
    },
  };
}

/** What the loopback server takes in place of a sign-in, like Google's own emulators. */
const STATIC_TOKEN = 'owner';

/** For hosts other than Google's: no sign-in, and nothing secret that could reach them. */
export const STATIC_CREDENTIAL: Credential = {
  getAccessToken: () => Promise.resolve({ access_token: STATIC_TOKEN, expires_in: 86_400 }),
};
