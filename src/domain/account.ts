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

/**
 * What a circuit breaker is for: an account; on a platform whose devices name their servers (web push), one server of it:
 * `webpush@fcm.googleapis.com`. Neither an account nor a host contains an `@`.
 */
export type Service = Account | `${Account}@${string}`;

/** @param host undefined on a platform with one server */
export function serviceOf(account: Account, host: string | undefined): Service {
  return host === undefined ? account : `${account}@${host}`;
}

/**
 * `apns` → `{ platform: 'apns' }`; `webpush~teacher@fcm.googleapis.com` →
 * `{ platform: 'webpush', app: 'teacher', server: 'fcm.googleapis.com' }`. For logs, labels and messages.
 */
export function namesOf(service: Service): {
  readonly platform: Platform;
  readonly app?: string;
  readonly server?: string;
} {
  const [account = '', server] = service.split('@');
  const [platform, app] = account.split('~');
  return {
    platform: platform as Platform,
    ...(app !== undefined && { app }),
    ...(server !== undefined && { server }),
  };
}

/** `webpush~teacher@fcm.googleapis.com` → `webpush~teacher`. */
export function accountIn(service: Service): Account {
  return service.split('@')[0] as Account;
}
