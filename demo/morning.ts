import { readFileSync } from 'node:fs';
import { extname } from 'node:path';
import { parseScriptText, type ScriptedAnswer } from '../sandbox/answers.ts';
import { tokenOf } from '../src/notification/device.ts';
import { parseNotification, type ToDevices } from '../src/notification/notification.ts';
import type { QuietHours } from '../src/domain/quiet-hours.ts';
import type { ProvidersProcess } from './providers-process.ts';

/** The folder `examples`, which is one folder higher if this file runs from `dist`. */
export const EXAMPLES = new URL(
  extname(import.meta.url) === '.ts' ? '../examples/' : '../../examples/',
  import.meta.url,
);
const TROUBLES = 'school-morning.sandbox.json';

type Scripted = Pick<ProvidersProcess, 'order'>;

export interface Morning {
  /** Those that `createProducer` accepts. */
  readonly valid: readonly (ToDevices & { id: string })[];
  /** Those that only a producer in another language would add. */
  readonly malformed: readonly { readonly id: string }[];
  /** The providers' answers: tokens that are gone, a short overload, a wrong configuration of the app. */
  readonly troubles: readonly ScriptedAnswer[];
  /** Token → recipient. */
  readonly recipientOf: ReadonlyMap<string, string>;
}

/** The push service of the browsers in `examples/`, which nobody runs. */
const PUSH_SERVICE = 'https://push.example.com';

/** The teachers of the morning for whom something else than waiting is asked for. */
export const THREAD = 'teacher-rossi';
export const MATCH = 'teacher-silva';
export const TRIP = { recipientId: 'teacher-weber', cancellationKey: 'trip-77' };
export const NIGHT = 'teacher-ncube';
/** Who gets the most, some of them of high priority. */
export const BUSIEST = 'teacher-abara';

const HOUR_MS = 3_600_000;

/** What is canceled in the demo was to be sent in an hour. */
export function withSendAfter<Input extends ToDevices>(input: Input, now: number): Input {
  return input.cancellationKey === undefined ? input : { ...input, sendAfter: now + HOUR_MS };
}

/** A morning at a school, from the files in `examples/`. @param pushService takes the place of the one in the files */
export function readMorning(pushService = PUSH_SERVICE): Morning {
  const read = (name: string): string =>
    readFileSync(new URL(name, EXAMPLES), 'utf8').replaceAll(`${PUSH_SERVICE}/`, `${pushService}/`);
  const lines = read('school-morning.ndjson').trimEnd().split('\n');
  const all = lines.map((line) => JSON.parse(line) as ToDevices & { id: string });
  const valid = all.filter((line) => parseNotification(line).ok);
  return {
    valid,
    malformed: all.filter((line) => !valid.includes(line)),
    troubles: parseScriptText(read(TROUBLES), TROUBLES),
    recipientOf: new Map(
      valid.flatMap(({ devices, recipientId }) => devices.map((device) => [tokenOf(device), recipientId] as const)),
    ),
  };
}

/** Scripts the loopback providers for the troubles of that morning. */
export async function scriptTroubles(providers: Scripted, troubles: Morning['troubles']): Promise<void> {
  await providers.order({ do: 'answers', answers: troubles });
}

/** Corrects the app's configuration, the cause of some dead letters. Tokens that are gone stay gone. */
export async function correctConfiguration(providers: Scripted, troubles: Morning['troubles']): Promise<void> {
  const answers = troubles.filter(({ reason, times }) => reason !== MISCONFIGURED && times === undefined);
  await providers.order({ do: 'answers', answers });
}

/** FCM's word for a token that belongs to another Firebase project than the app's configuration names. */
export const MISCONFIGURED = 'SENDER_ID_MISMATCH';

/** Quiet hours that began an hour ago and end in two, so that a run does not depend on the time. */
export function quietNow(now: number): QuietHours {
  const clockAt = (at: number): string => new Date(at).toISOString().slice(11, 16);
  return { timezone: 'UTC', quietHours: [{ from: clockAt(now - HOUR_MS), until: clockAt(now + 2 * HOUR_MS) }] };
}
