import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { parseNotification, type NotificationInput, type Platform } from '../../src/domain/notification.ts';
import type { Answer } from '../../src/sandbox/loopback/answers.ts';
import type { ProvidersProcess } from '../support/providers-process.ts';

const EXAMPLES = new URL('../../examples/', import.meta.url);

const tokensSchema = z.array(z.object({ platform: z.enum(['apns', 'fcm']), token: z.string() }));
const troublesSchema = z.object({ gone: tokensSchema, busyOnce: tokensSchema, refusedUntilCured: tokensSchema });

/** What is wrong at the providers on that morning: tokens that are gone, a short overload, a wrong configuration of the app. */
export type Troubles = z.output<typeof troublesSchema>;

type Scripted = Pick<ProvidersProcess, 'script'>;

export interface Morning {
  /** Those that `createProducer` accepts. */
  readonly valid: readonly (NotificationInput & { id: string })[];
  /** Those that only a producer in another language would add. */
  readonly malformed: readonly { readonly id: string }[];
  readonly troubles: Troubles;
  /** Token → recipient. */
  readonly recipientOf: ReadonlyMap<string, string>;
}

/** A morning at a school, from the files in `examples/`. */
export function readMorning(): Morning {
  const lines = readFileSync(new URL('school-morning.ndjson', EXAMPLES), 'utf8').trimEnd().split('\n');
  const all = lines.map((line) => JSON.parse(line) as NotificationInput & { id: string });
  const valid = all.filter((line) => parseNotification(line).ok);
  const troubles = readFileSync(new URL('school-morning.sandbox.json', EXAMPLES), 'utf8');
  return {
    valid,
    malformed: all.filter((line) => !valid.includes(line)),
    troubles: troublesSchema.parse(JSON.parse(troubles)),
    recipientOf: new Map(
      valid.flatMap(({ devices, recipientId }) => devices.map(({ token }) => [token, recipientId] as const)),
    ),
  };
}

/** Sets the loopback providers' answers for the troubles of that morning. */
export async function scriptTroubles(
  providers: Scripted,
  { gone, busyOnce, refusedUntilCured }: Troubles,
): Promise<void> {
  const always = (answer: Answer): Answer[] => Array.from({ length: 100 }, () => answer);
  for (const { platform, token } of gone) await providers.script(platform, token, always(GONE[platform]));
  for (const { platform, token } of busyOnce) await providers.script(platform, token, [BUSY[platform]]);
  for (const { platform, token } of refusedUntilCured) await providers.script(platform, token, always(MISCONFIGURED));
}

/** Corrects the app's configuration, the cause of some dead letters. */
export async function cure(providers: Scripted, { refusedUntilCured }: Troubles): Promise<void> {
  for (const { platform, token } of refusedUntilCured) await providers.script(platform, token, []);
}

const GONE: Record<Platform, Answer> = {
  apns: { kind: 'refuse', status: 410, reason: 'Unregistered' },
  fcm: { kind: 'refuse', status: 404, reason: 'UNREGISTERED' },
};
const BUSY: Record<Platform, Answer> = {
  apns: { kind: 'refuse', status: 503, reason: 'ServiceUnavailable' },
  fcm: { kind: 'refuse', status: 503, reason: 'UNAVAILABLE', retryAfter: '1' },
};
const MISCONFIGURED: Answer = { kind: 'refuse', status: 403, reason: 'SENDER_ID_MISMATCH' };
