import { Option, type Command } from 'commander';
import type { Fault } from '../../src/domain/faults.ts';
import { UsageError } from '../support/command.ts';

/**
 * The lines of a stream, with the bytes read so far; never more than a chunk and a line in memory. node:readline would
 * also break at U+2028 and U+2029, which JSON allows inside a string.
 */
export async function* linesOf(
  chunks: AsyncIterable<Uint8Array>,
): AsyncGenerator<{ readonly line: string; readonly bytes: number }> {
  const decoder = new TextDecoder(); // drops a byte order mark
  let rest = '';
  let bytes = 0;
  for await (const chunk of chunks) {
    bytes += chunk.byteLength;
    const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) yield { line, bytes };
  }
  rest += decoder.decode();
  if (rest !== '') yield { line: rest, bytes };
}

/** One line of the input, or the notification of the flags; `faults` if a line is not JSON. */
export type Item = { readonly where: string } & (
  { readonly input: unknown; readonly faults?: never } | { readonly input?: never; readonly faults: readonly Fault[] }
);

/** The flags of one notification, as commander gives them. */
export interface NotificationFlags {
  readonly id?: string;
  readonly recipient?: string;
  readonly apns: readonly string[];
  readonly fcm: readonly string[];
  readonly webpush: readonly string[];
  readonly title?: string;
  readonly body?: string;
  readonly data: readonly string[];
  readonly sound?: string;
  readonly badge?: string;
  readonly category?: string;
  readonly priority?: string;
  readonly collapseId?: string;
  readonly expiresAt?: string;
  readonly onThrottle?: string;
}

export function addNotificationFlags(command: Command): Command {
  const repeated = (value: string, before: readonly string[]) => [...before, value];
  return command
    .option('--id <id>', 'idempotency key (default: a new UUID)')
    .option('--recipient <id>', 'whom the limits protect')
    .option('--apns <token>', 'a device on APNs; may be repeated', repeated, [])
    .option('--fcm <token>', 'a device on FCM; may be repeated', repeated, [])
    .option('--webpush <json>', "a browser's PushSubscription as JSON; may be repeated", repeated, [])
    .option('--title <text>', "the alert's title")
    .option('--body <text>', "the alert's text")
    .option('--data <key=value>', 'a pair for the app; may be repeated', repeated, [])
    .option('--sound <name>', 'the sound to play')
    .option('--badge <number>', "the number on the app's icon")
    .option('--category <name>', 'what kind it is; limits can be set per category')
    .addOption(new Option('--priority <name>', 'how urgent it is').choices(['high', 'normal']))
    .option('--collapse-id <id>', 'replaces the alert shown under the same id')
    .option('--expires-at <time>', 'RFC 3339 or epoch milliseconds')
    .addOption(new Option('--on-throttle <what>', 'if it is blocked').choices(['delay', 'drop', 'silence']));
}

/** The lines of an NDJSON stream, without empty ones. `onRead` is called with the bytes read so far. */
export async function* itemsOfLines(
  chunks: AsyncIterable<Uint8Array>,
  onRead: (bytes: number) => void,
): AsyncGenerator<Item> {
  let number = 0;
  for await (const { line, bytes } of linesOf(chunks)) {
    number++;
    onRead(bytes);
    if (line.trim() !== '') yield itemOfLine(`line ${number}`, line);
  }
}

function itemOfLine(where: string, line: string): Item {
  try {
    return { where, input: JSON.parse(line) as unknown };
  } catch {
    const found = `${line.length} characters that are none`;
    return { where, faults: [{ path: '', expected: 'JSON', found }] };
  }
}

/** The notification of the flags. Bad values are left to the validation, except for those that cannot be written as JSON. */
export function itemOfFlags(flags: NotificationFlags): Item {
  const { id, recipient, apns, fcm, webpush, title, body, data, sound, badge, category } = flags;
  const onApns = apns.map((token) => ({ platform: 'apns', token }));
  const onFcm = fcm.map((token) => ({ platform: 'fcm', token }));
  const input = {
    id,
    recipientId: recipient,
    devices: [...onApns, ...onFcm, ...webpush.map(subscriptionOf)],
    alert: { title, body },
    data: data.length === 0 ? undefined : Object.fromEntries(data.map(pairOf)),
    sound,
    badge: numberOr(badge),
    category,
    priority: flags.priority,
    collapseId: flags.collapseId,
    expiresAt: numberOr(flags.expiresAt),
    onThrottle: flags.onThrottle,
  };
  return { where: '', input: JSON.parse(JSON.stringify(input)) as unknown }; // leaves out what is undefined
}

function subscriptionOf(text: string): object {
  const value = parsed(text);
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  if (!isObject) throw new UsageError('--webpush: expected a PushSubscription as JSON, found something else');
  return { platform: 'webpush', ...value };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function pairOf(text: string): [key: string, value: string] {
  const at = text.indexOf('=');
  if (at < 1) throw new UsageError('--data: expected key=value, found no key before a =');
  return [text.slice(0, at), text.slice(at + 1)];
}

function numberOr(text: string | undefined): number | string | undefined {
  return text !== undefined && /^-?\d+$/.test(text) ? Number(text) : text;
}
