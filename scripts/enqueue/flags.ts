import { Option, type Command } from 'commander';
import type { Fault } from '../../src/domain/faults.ts';
import { isObject } from '../../src/domain/json.ts';
import { linesOf, notJson, notUtf8, type Line } from '../../src/domain/ndjson.ts';
import { parseDuration } from '../../src/domain/time.ts';
import { CommandError, UsageError, parseInstant } from '../../src/terminal/command.ts';
import { numberOr } from '../support/flags.ts';

const TIME_FORMAT = 'RFC 3339, epoch milliseconds, or a duration from now such as 1h';

/**
 * A flag of one notification, and the path of its field; without a path, `itemOfFlags` reads the flag. `value`: the allowed
 * values, or how the flag's text is read. The validation of the notification checks the rest.
 */
type NotificationFlag = readonly [
  flag: string,
  path: string,
  does: string,
  value?: readonly string[] | ((text: string, before: unknown) => unknown),
];

const FLAGS: readonly NotificationFlag[] = [
  ['--id <id>', 'id', 'idempotency key (default: a new UUID)'],
  ['--recipient <id>', 'recipientId', 'whom the limits protect'],
  ['--apns <token>', '', 'a device on APNs; may be repeated', repeated],
  ['--fcm <token>', '', 'a device on FCM; may be repeated', repeated],
  ['--fid <id>', '', 'a device on FCM, by its Firebase installation id; may be repeated', repeated],
  ['--webpush <json>', '', "a browser's PushSubscription as JSON; may be repeated", repeated],
  ['--channel <id>', 'channel.id', "in place of devices: a broadcast channel of Apple's, for a Live Activity"],
  [
    '--channel-storage <what>',
    'channel.storage',
    'with --channel: what APNs keeps of it for phones that are offline',
    ['none', 'most-recent'],
  ],
  [
    '--app <name>',
    '',
    'the app of these devices or the channel, by its name in APPS_FILE (default: that of the environment)',
  ],
  [
    '--push-type <name>',
    'pushType',
    'what the device does: show it, wake the app, or change a Live Activity',
    ['alert', 'background', 'liveactivity'],
  ],
  [
    '--live-activity <json>',
    'liveActivity',
    'with --push-type liveactivity: its event and contentState, as a JSON object',
    (text) => jsonObjectOf('--live-activity', text),
  ],
  ['--live-activity-token <token>', '', 'the token of the Live Activity, of the one device on FCM'],
  ['--title <text>', 'alert.title', "the alert's title"],
  ['--subtitle <text>', 'alert.subtitle', 'the line below the title, on iPhones'],
  ['--body <text>', 'alert.body', "the alert's text"],
  ['--image-url <url>', 'imageUrl', 'an image to show: https'],
  ['--data <key=value>', '', 'a text for the app under a key; may be repeated', repeated],
  ['--data-json <object>', '', 'data for the app that are more than texts, as a JSON object'],
  ['--sound <name>', 'sound', 'the sound to play'],
  ['--badge <number>', 'badge', "the number on the app's icon", numberOr],
  ['--category <name>', 'category', 'what kind it is; limits can be set per category'],
  ['--priority <name>', 'priority', 'how urgent it is', ['high', 'normal']],
  ['--collapse-id <id>', 'collapseId', 'replaces the alert shown under the same id'],
  ['--send-after <time>', 'sendAfter', `not sent before: ${TIME_FORMAT}`, time('--send-after')],
  ['--expires-at <time>', 'expiresAt', `not delivered after: ${TIME_FORMAT}`, time('--expires-at')],
  ['--cancellation-key <key>', 'cancellationKey', 'cancel all of the recipient that wait under it'],
  ['--on-throttle <what>', 'onThrottle', 'if it is blocked', ['delay', 'latest', 'digest', 'drop', 'silence']],
  ['--digest-key <key>', 'digest.key', 'with --on-throttle digest: what goes together'],
  ['--digest-title <text>', 'digest.title', 'its title; {{count}} becomes the number of notifications'],
  ['--digest-body <text>', 'digest.body', 'its text; {{count}} becomes the number of notifications'],
  ['--digest-max-size <number>', 'digest.maxSize', 'how many are in one digest at most', numberOr],
  ['--on-quiet <what>', 'onQuiet', 'if it is in quiet hours', ['delay', 'silence', 'drop']],
  ['--thread-id <id>', 'apns.threadId', 'iPhones: which group it is shown in'],
  ['--action-category <name>', 'apns.actionCategory', "iPhones: the app's category that has the buttons"],
  [
    '--interruption-level <name>',
    'apns.interruptionLevel',
    'iPhones: how it interrupts',
    ['passive', 'active', 'time-sensitive', 'critical'],
  ],
  ['--channel-id <id>', 'android.channelId', 'Android: the notification channel'],
  [
    '--navigate <url>',
    'webpush.navigate',
    'browsers: a declarative push, shown without a service worker; a click opens this URL',
  ],
  ['--analytics-label <label>', 'analyticsLabel', "FCM: a label for Google's reports"],
];

/** Collects the values of a flag that may be repeated. */
function repeated(text: string, before: unknown): readonly string[] {
  return [...((before ?? []) as readonly string[]), text];
}

/** A duration becomes an instant. */
function time(flag: string): (text: string) => number | string {
  return (text) => {
    const ms = /[a-z]$/.test(text) ? parseDuration(text) : undefined;
    if (ms !== undefined) return Date.now() + ms;
    if (/^-?\d+$/.test(text) || parseInstant(text) !== undefined) return numberOr(text);
    throw new UsageError(`${flag}: expected ${TIME_FORMAT}, found ${JSON.stringify(text)}`);
  };
}

function optionOf([flag, , does, value]: NotificationFlag): Option {
  const option = new Option(flag, does);
  if (value === undefined) return option;
  return typeof value === 'function' ? option.argParser(value) : option.choices(value);
}

export function addNotificationFlags(command: Command): Command {
  return FLAGS.reduce((all, flag) => all.addOption(optionOf(flag)), command);
}

/** The flags of one notification, as commander gives them. */
export interface NotificationFlags extends Readonly<Record<string, unknown>> {
  readonly apns?: readonly string[];
  readonly fcm?: readonly string[];
  readonly fid?: readonly string[];
  readonly liveActivityToken?: string;
  readonly webpush?: readonly string[];
  readonly channel?: string;
  readonly app?: string;
  readonly data?: readonly string[];
  readonly dataJson?: string;
}

/** The notification in the flags. The validation reports bad values, except those that cannot be written as JSON. */
export function itemOfFlags(flags: NotificationFlags): Item {
  const { apns = [], fcm = [], fid = [], webpush = [], channel, app, data = [], dataJson, liveActivityToken } = flags;
  const ofApp = app !== undefined && { app };
  const onFcm = [...fcm.map((token) => ({ token })), ...fid.map((id) => ({ fid: id }))];
  if (liveActivityToken !== undefined && onFcm.length !== 1)
    throw new UsageError(`--live-activity-token: expected one device on FCM beside it, found ${onFcm.length}`);
  const ofActivity = liveActivityToken !== undefined && { liveActivityToken };
  const devices = [
    ...apns.map((token) => ({ platform: 'apns', token, ...ofApp })),
    ...onFcm.map((target) => ({ platform: 'fcm', ...target, ...ofActivity, ...ofApp })),
    // The JSON may be a whole device with an app of its own, which must not be lost.
    ...webpush.map((text) => ({ platform: 'webpush', ...jsonObjectOf('--webpush', text), ...ofApp })),
  ];
  const input: Record<string, unknown> = channel === undefined || devices.length > 0 ? { devices } : {};
  for (const each of FLAGS) {
    const value = flags[optionOf(each).attributeName()];
    const [field = '', part] = each[1].split('.');
    if (field === '' || value === undefined) continue;
    input[field] = part === undefined ? value : { ...(input[field] as object | undefined), [part]: value };
  }
  if (flags['navigate'] !== undefined) input['webpush'] = { ...(input['webpush'] as object), declarative: true };
  if (channel !== undefined) {
    input['recipientId'] ??= channel;
    input['channel'] = { ...(input['channel'] as object), ...ofApp };
  }
  const mayShowNothing = input['pushType'] === 'background' || input['pushType'] === 'liveactivity';
  if (!mayShowNothing) input['alert'] ??= {};
  if (data.length > 0 || dataJson !== undefined) {
    const object = dataJson === undefined ? {} : jsonObjectOf('--data-json', dataJson);
    input['data'] = { ...object, ...Object.fromEntries(data.map(pairOf)) };
  }
  return { where: '', input };
}

/** The JSON object in a flag. The error shows no part of it, because it may be private. */
function jsonObjectOf(flag: string, text: string): object {
  try {
    const value: unknown = JSON.parse(text);
    if (isObject(value)) return value;
  } catch {
    // refused below
  }
  throw new UsageError(`${flag}: expected a JSON object, found ${text.length} characters that are no JSON object`);
}

function pairOf(text: string): [key: string, value: string] {
  const at = text.indexOf('=');
  if (at < 1) throw new UsageError('--data: expected key=value, found no key before a =');
  return [text.slice(0, at), text.slice(at + 1)];
}

/** One line of the input, or the notification in the flags; `faults` if a line is not JSON. */
export type Item = { readonly where: string } & (
  { readonly input: unknown; readonly faults?: never } | { readonly input?: never; readonly faults: readonly Fault[] }
);

/** JSON over several lines begins like this. As NDJSON, each of its lines would be a fault. */
const IS_BEGIN_OF_JSON = /^\s*[[{]\s*$/;

/**
 * The lines of an NDJSON stream, without empty lines. `onRead` is called with the number of bytes read so far. Throws CommandError
 * if the first line is the beginning of JSON over several lines.
 */
export async function* itemsOfLines(
  chunks: AsyncIterable<Uint8Array>,
  onRead: (bytes: number) => void,
): AsyncGenerator<Item> {
  let number = 0;
  for await (const lines of linesOf(chunks)) {
    for (const line of lines) {
      number++;
      onRead(line.bytes);
      if (number === 1 && IS_BEGIN_OF_JSON.test(line.text)) {
        throw new CommandError(
          'line 1: expected NDJSON, a whole notification on each line, found JSON over several lines; ' +
            "jq -c '.[]' makes lines of an array, and jq -c . one line of an object",
        );
      }
      if (line.text.trim() !== '') yield itemOfLine(`line ${number}`, line);
    }
  }
}

function itemOfLine(where: string, { text, isUtf8 }: Line): Item {
  if (!isUtf8) return { where, faults: [notUtf8(text.length)] };
  try {
    return { where, input: JSON.parse(text) as unknown };
  } catch {
    return { where, faults: [notJson(text.length)] };
  }
}
