import { Option, type Command } from 'commander';
import type { Fault } from '../../src/domain/faults.ts';
import { linesOf } from '../../src/domain/ndjson.ts';
import { parseDuration } from '../../src/domain/time.ts';
import { UsageError, parseInstant } from '../../src/terminal/command.ts';

const ON_THROTTLE = ['delay', 'latest', 'digest', 'drop', 'silence'];
const INTERRUPTION_LEVELS = ['passive', 'active', 'time-sensitive', 'critical'];

/** The flags of one notification, as commander gives them. */
export interface NotificationFlags {
  readonly id?: string;
  readonly recipient?: string;
  readonly apns: readonly string[];
  readonly fcm: readonly string[];
  readonly fid: readonly string[];
  readonly webpush: readonly string[];
  readonly app?: string;
  readonly pushType?: string;
  readonly liveActivity?: string;
  readonly liveActivityToken?: string;
  readonly title?: string;
  readonly subtitle?: string;
  readonly body?: string;
  readonly imageUrl?: string;
  readonly data: readonly string[];
  readonly dataJson?: string;
  readonly sound?: string;
  readonly badge?: string;
  readonly category?: string;
  readonly priority?: string;
  readonly collapseId?: string;
  readonly sendAfter?: string;
  readonly expiresAt?: string;
  readonly cancellationKey?: string;
  readonly onThrottle?: string;
  readonly digestKey?: string;
  readonly digestTitle?: string;
  readonly digestBody?: string;
  readonly digestMaxSize?: string;
  readonly onQuiet?: string;
  readonly threadId?: string;
  readonly actionCategory?: string;
  readonly interruptionLevel?: string;
  readonly channelId?: string;
  readonly analyticsLabel?: string;
}

const TIME_FORMAT = 'RFC 3339, epoch milliseconds, or a duration from now such as 1h';

/** A duration becomes an instant. The validation of the notification checks the instant. */
function time(flag: string): (text: string) => string {
  return (text) => {
    const ms = /[a-z]$/.test(text) ? parseDuration(text) : undefined;
    if (ms !== undefined) return String(Date.now() + ms);
    if (/^-?\d+$/.test(text) || parseInstant(text) !== undefined) return text;
    throw new UsageError(`${flag}: expected ${TIME_FORMAT}, found ${JSON.stringify(text)}`);
  };
}

export function addNotificationFlags(command: Command): Command {
  const repeated = (value: string, before: readonly string[]) => [...before, value];
  return command
    .option('--id <id>', 'idempotency key (default: a new UUID)')
    .option('--recipient <id>', 'whom the limits protect')
    .option('--apns <token>', 'a device on APNs; may be repeated', repeated, [])
    .option('--fcm <token>', 'a device on FCM; may be repeated', repeated, [])
    .option('--fid <id>', 'a device on FCM, by its Firebase installation id; may be repeated', repeated, [])
    .option('--webpush <json>', "a browser's PushSubscription as JSON; may be repeated", repeated, [])
    .option('--app <name>', 'the app of these devices, by its name in APPS_FILE (default: that of the environment)')
    .addOption(
      new Option(
        '--push-type <name>',
        'what the device does: show it, wake the app, or change a Live Activity',
      ).choices(['alert', 'background', 'liveactivity']),
    )
    .option('--live-activity <json>', 'with --push-type liveactivity: its event and contentState, as a JSON object')
    .option('--live-activity-token <token>', 'the token of the Live Activity, of the one device on FCM')
    .option('--title <text>', "the alert's title")
    .option('--subtitle <text>', 'the line below the title, on iPhones')
    .option('--body <text>', "the alert's text")
    .option('--image-url <url>', 'an image to show: https')
    .option('--data <key=value>', 'a text for the app under a key; may be repeated', repeated, [])
    .option('--data-json <object>', 'data for the app that are more than texts, as a JSON object')
    .option('--sound <name>', 'the sound to play')
    .option('--badge <number>', "the number on the app's icon")
    .option('--category <name>', 'what kind it is; limits can be set per category')
    .addOption(new Option('--priority <name>', 'how urgent it is').choices(['high', 'normal']))
    .option('--collapse-id <id>', 'replaces the alert shown under the same id')
    .option('--send-after <time>', `not sent before: ${TIME_FORMAT}`, time('--send-after'))
    .option('--expires-at <time>', `not delivered after: ${TIME_FORMAT}`, time('--expires-at'))
    .option('--cancellation-key <key>', 'cancel all of the recipient that wait under it')
    .addOption(new Option('--on-throttle <what>', 'if it is blocked').choices(ON_THROTTLE))
    .option('--digest-key <key>', 'with --on-throttle digest: what goes together')
    .option('--digest-title <text>', 'its title; {{count}} becomes the number of notifications')
    .option('--digest-body <text>', 'its text; {{count}} becomes the number of notifications')
    .option('--digest-max-size <number>', 'how many are in one digest at most')
    .addOption(new Option('--on-quiet <what>', 'if it is in quiet hours').choices(['delay', 'silence', 'drop']))
    .option('--thread-id <id>', 'iPhones: which group it is shown in')
    .option('--action-category <name>', "iPhones: the app's category that has the buttons")
    .addOption(new Option('--interruption-level <name>', 'iPhones: how it interrupts').choices(INTERRUPTION_LEVELS))
    .option('--channel-id <id>', 'Android: the notification channel')
    .option('--analytics-label <label>', "FCM: a label for Google's reports");
}

/** The notification in the flags. The validation reports bad values, except those that cannot be written as JSON. */
export function itemOfFlags(flags: NotificationFlags): Item {
  const { id, recipient, apns, fcm, fid, webpush, app, title, subtitle, body, sound, badge, category } = flags;
  const { threadId, actionCategory, interruptionLevel, channelId } = flags;
  const onApns = apns.map((token) => ({ platform: 'apns', token, app }));
  const onFcm = [...fcm.map((token) => ({ token })), ...fid.map((id) => ({ fid: id }))];
  const { liveActivityToken } = flags;
  if (liveActivityToken !== undefined && onFcm.length !== 1)
    throw new UsageError(`--live-activity-token: expected one device on FCM beside it, found ${onFcm.length}`);
  // The JSON may be a whole device with an app of its own, which must not be lost.
  const onWebpush = webpush.map((text) => ({
    platform: 'webpush',
    ...jsonObjectOf('--webpush', text),
    ...(app !== undefined && { app }),
  }));
  const input = {
    id,
    recipientId: recipient,
    devices: [
      ...onApns,
      ...onFcm.map((target) => ({ platform: 'fcm', ...target, liveActivityToken, app })),
      ...onWebpush,
    ],
    pushType: flags.pushType,
    alert: objectOr({ title, subtitle, body }, mayShowNothing(flags) ? undefined : {}),
    liveActivity: flags.liveActivity === undefined ? undefined : jsonObjectOf('--live-activity', flags.liveActivity),
    imageUrl: flags.imageUrl,
    data: objectOr({
      ...(flags.dataJson !== undefined && jsonObjectOf('--data-json', flags.dataJson)),
      ...Object.fromEntries(flags.data.map(pairOf)),
    }),
    sound,
    badge: numberOr(badge),
    category,
    priority: flags.priority,
    collapseId: flags.collapseId,
    sendAfter: numberOr(flags.sendAfter),
    expiresAt: numberOr(flags.expiresAt),
    cancellationKey: flags.cancellationKey,
    onThrottle: flags.onThrottle,
    digest: objectOr({
      key: flags.digestKey,
      title: flags.digestTitle,
      body: flags.digestBody,
      maxSize: numberOr(flags.digestMaxSize),
    }),
    onQuiet: flags.onQuiet,
    apns: objectOr({ threadId, actionCategory, interruptionLevel }),
    android: objectOr({ channelId }),
    analyticsLabel: flags.analyticsLabel,
  };
  return { where: '', input: JSON.parse(JSON.stringify(input)) as unknown }; // leaves out undefined fields
}

/** Whether the notification may have no alert. */
function mayShowNothing({ pushType }: NotificationFlags): boolean {
  return pushType === 'background' || pushType === 'liveactivity';
}

/** The object; or `empty` if all its fields are undefined. */
function objectOr(object: Readonly<Record<string, unknown>>, empty?: object): object | undefined {
  return Object.values(object).some((value) => value !== undefined) ? object : empty;
}

/** The JSON object in a flag. The error shows no part of it, because it may be private. */
function jsonObjectOf(flag: string, text: string): object {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value;
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

function numberOr(text: string | undefined): number | string | undefined {
  return text !== undefined && /^-?\d+$/.test(text) ? Number(text) : text;
}

/** One line of the input, or the notification in the flags; `faults` if a line is not JSON. */
export type Item = { readonly where: string } & (
  { readonly input: unknown; readonly faults?: never } | { readonly input?: never; readonly faults: readonly Fault[] }
);

/** The lines of an NDJSON stream, without empty lines. `onRead` is called with the number of bytes read so far. */
export async function* itemsOfLines(
  chunks: AsyncIterable<Uint8Array>,
  onRead: (bytes: number) => void,
): AsyncGenerator<Item> {
  let number = 0;
  for await (const lines of linesOf(chunks)) {
    for (const { text, bytes } of lines) {
      number++;
      onRead(bytes);
      if (text.trim() !== '') yield itemOfLine(`line ${number}`, text);
    }
  }
}

function itemOfLine(where: string, line: string): Item {
  try {
    return { where, input: JSON.parse(line) as unknown };
  } catch {
    const found = `${line.length} characters that are not JSON`;
    return { where, faults: [{ path: '', expected: 'JSON', found }] };
  }
}
