import type { Platform } from './notification.ts';

/**
 * An app on a platform: what has credentials, a quota and a circuit breaker of its own. `apns` is the app of the environment,
 * `apns~teacher` another one. It is a part of Redis keys, and neither a platform nor an app's name contains a `~`.
 */
export type Account = Platform | `${Platform}~${string}`;

/** @param app undefined: the app of the environment */
export function accountOf({ platform, app }: { platform: Platform; app?: string | undefined }): Account {
  return app === undefined ? platform : `${platform}~${app}`;
}

/** `apns~teacher` → `{ platform: 'apns', app: 'teacher' }`; `apns` → `{ platform: 'apns' }`. For logs, labels and messages. */
export function namesOf(account: Account): { readonly platform: Platform; readonly app?: string } {
  const at = account.indexOf('~');
  if (at < 0) return { platform: account as Platform };
  return { platform: account.slice(0, at) as Platform, app: account.slice(at + 1) };
}
