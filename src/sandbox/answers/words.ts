import type { Platform } from '../../domain/notification.ts';
import { APNS_WORDS } from '../apns/words.ts';
import { FCM_WORDS } from '../fcm/words.ts';
import type { Refuse } from '../loopback/answers.ts';
import { WEBPUSH_WORDS } from '../webpush/words.ts';
import type { ProviderWords } from './provider-words.ts';

/** One for every provider: a platform without words does not compile. */
export const WORDS: Readonly<Record<Platform, ProviderWords>> = {
  apns: APNS_WORDS,
  fcm: FCM_WORDS,
  webpush: WEBPUSH_WORDS,
};

/** A refusal as a script asks for it. */
export interface AskedRefusal {
  readonly reason?: string | undefined;
  readonly status?: number | undefined;
  readonly field?: string | undefined;
}

/** What a load balancer in front of a provider answers: the status alone. */
const WITHOUT_BODY = [502, 504];

/** The statuses that a script may ask of a provider without a word. */
export function statusesOf(platform: Platform): number[] {
  return [...Object.keys(WORDS[platform].usual).map(Number), ...WITHOUT_BODY].sort((a, b) => a - b);
}

/** The provider's answer. `nowMs`: since when APNs calls a token gone. */
export function refusalOf(platform: Platform, asked: AskedRefusal, nowMs: number): Refuse {
  const { status = 500 } = asked;
  const { usual, refusal } = WORDS[platform];
  const reason = asked.reason ?? usual[status];
  if (reason === undefined) return { kind: 'refuse', status, emptyBody: true };
  return refusal(reason, asked.field, nowMs);
}
