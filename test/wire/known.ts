import type { NotificationInput, Platform } from '../../src/domain/notification.ts';

/** A case of a request: which notification it carries, and how. */
export interface WireCase {
  readonly notification: Pick<NotificationInput, 'pushType' | 'fcm'>;
  readonly platform: Platform;
  readonly silent: boolean;
}

/** A break of a rule that is known and not mended yet: requests.test.ts skips exactly it. */
export interface Known {
  readonly name: string;
  readonly isIt: (fault: string, given: WireCase) => boolean;
  /**
   * A notification that shows it; a few of the random ones get these fields too. Its test fails as soon as it is mended: delete
   * the entry then.
   */
  readonly example: {
    readonly platform: Platform;
    readonly silent?: boolean;
    readonly fields: Readonly<Record<string, unknown>>;
  };
}

const SHOWN = { alert: { body: 'Forms' } };

export const KNOWN: readonly Known[] = [
  {
    name: 'fcm.message without its notification keeps the one for Android',
    isIt: (fault, { platform, notification: { fcm } }) =>
      platform === 'fcm' &&
      fcm?.message?.['notification'] === null &&
      /nothing to show|without an alert|payload\.aps: expected/.test(fault),
    example: { platform: 'fcm', silent: true, fields: { ...SHOWN, fcm: { message: { notification: null } } } },
  },
];
