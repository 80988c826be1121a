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
const BACKGROUND = { pushType: 'background' };

export const KNOWN: readonly Known[] = [
  {
    name: 'half of a character in a text',
    isIt: (fault) => fault.includes('a lone surrogate'),
    example: { platform: 'apns', fields: { alert: { body: 'Forms \ud83d' } } },
  },
  {
    name: 'null in the data or a patch',
    isIt: (fault) => fault.endsWith(': null'),
    example: { platform: 'apns', fields: { ...SHOWN, data: { form: null } } },
  },
  {
    name: 'fcm.message without its notification keeps the one for Android',
    isIt: (fault, { platform, notification: { fcm } }) =>
      platform === 'fcm' &&
      fcm?.message?.['notification'] === null &&
      /nothing to show|without an alert|payload\.aps: expected/.test(fault),
    example: { platform: 'fcm', silent: true, fields: { ...SHOWN, fcm: { message: { notification: null } } } },
  },
  {
    name: 'a second target in fcm.message',
    isIt: (fault) => fault === 'message: expected one target, found token and fid',
    example: { platform: 'fcm', fields: { ...SHOWN, fcm: { message: { fid: 'cHJvamVjdC1pZA' } } } },
  },
  {
    name: 'a background push that fcm.message makes loud',
    isIt: (fault, { platform, notification: { pushType } }) =>
      platform === 'fcm' &&
      pushType === 'background' &&
      /in the background|with this push type|without an alert/.test(fault),
    example: {
      platform: 'fcm',
      fields: {
        ...BACKGROUND,
        fcm: { message: { apns: { headers: { 'apns-priority': '10' }, payload: { aps: { sound: 'default' } } } } },
      },
    },
  },
  {
    name: 'expiresAt beyond 32 bits of seconds',
    isIt: (fault) => /apns-expiration: expected at most/.test(fault),
    example: { platform: 'apns', fields: { ...SHOWN, expiresAt: 4_294_967_296_000 } },
  },
  {
    name: 'a silent form that is larger than what the producer was told about',
    isIt: (fault, { silent }) => silent && fault === 'refused as too large, but the producer was not told',
    example: { platform: 'apns', silent: true, fields: { alert: { body: 'x'.repeat(4_060) }, onThrottle: 'silence' } },
  },
];
