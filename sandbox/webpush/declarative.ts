import { isObject } from '../../src/domain/json.ts';

/**
 * Declarative push messages, as Safari reads them: WebKit's NotificationJSONParser.cpp and its tests (WebPushDaemon.mm,
 * github.com/WebKit/WebKit, read on 2026-11-26), where the standard (w3.org/TR/push-api, section "Declarative push message", of
 * 2025-09-10) is less strict. Written by hand from there, so that a mistake of the sender is found.
 */

/** Marks a message as a declarative one. */
const MARK = 8_030;

/** How a browser that knows declarative messages shows one. */
export interface Shown {
  /** `browser`: without a service worker. `service-worker`: it is handed to that, as any other message. */
  readonly shownBy: 'browser' | 'service-worker';
  /** Why a message with the mark is none: `notification.navigate: expected an absolute URL`. Absent if there is nothing. */
  readonly ignored?: readonly string[];
}

/** Who shows a message. A fault in a declarative message makes it an ordinary one, which needs a service worker. */
export function shownBy(message: Readonly<Record<string, unknown>> | undefined): Shown {
  if (message?.['web_push'] !== MARK) return { shownBy: 'service-worker' };
  const { notification, app_badge: appBadge, mutable } = message;
  if (!isObject(notification)) return { shownBy: 'service-worker', ignored: ['notification: expected an object'] };
  const rules: readonly (readonly [path: string, expected: string, isBroken: boolean])[] = [
    ['notification.navigate', 'an absolute URL', !isAbsolute(notification['navigate'])],
    ['notification.title', 'a text that is not empty', !isText(notification['title']) || notification['title'] === ''],
    ...['body', 'tag', 'lang'].map((name) => {
      return [`notification.${name}`, 'a text', !isAbsentOr(isText, notification[name])] as const;
    }),
    ['notification.dir', 'auto, ltr or rtl', !isAbsentOr(isDirection, notification['dir'])],
    ['notification.icon', 'an absolute URL', !isAbsentOr(isAbsolute, notification['icon'])],
    ['notification.silent', 'true or false', !isAbsentOr(isFlag, notification['silent'])],
    // Safari 18.4 and 18.5 read it here, later ones beside `notification`.
    ['notification.app_badge', 'a whole number from 0 on', !isAbsentOr(isCount, notification['app_badge'])],
    ['app_badge', 'a whole number from 0 on', !isAbsentOr(isCount, appBadge)],
    ['mutable', 'true or false', !isAbsentOr(isFlag, mutable)],
  ];
  const ignored = rules.flatMap(([path, expected, isBroken]) => (isBroken ? [`${path}: expected ${expected}`] : []));
  return ignored.length > 0 ? { shownBy: 'service-worker', ignored } : { shownBy: 'browser' };
}

const isText = (value: unknown): boolean => typeof value === 'string';
const isFlag = (value: unknown): boolean => typeof value === 'boolean';
const isCount = (value: unknown): boolean => Number.isSafeInteger(Number(value)) && /^\d+$/.test(String(value));
const isAbsolute = (value: unknown): boolean => typeof value === 'string' && URL.canParse(value);
const isDirection = (value: unknown): boolean => typeof value === 'string' && ['auto', 'ltr', 'rtl'].includes(value);

function isAbsentOr(isRight: (value: unknown) => boolean, value: unknown): boolean {
  return value === undefined || isRight(value);
}
