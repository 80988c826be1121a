import type { Platform } from '../../domain/notification.ts';
import type { ApnsReason } from '../apns/reasons.ts';
import type { FcmReason } from '../fcm/reasons.ts';
import type { WebpushReason } from '../webpush/reasons.ts';

/**
 * One entry of the sandbox's script: which requests it is for, and what they are answered. The same in `setAnswers`, in a
 * file for `sandbox --script`, and in `PUT /answers`.
 *
 * Exactly one of these says what the answer is: `answer`, or `reason`, `status` or both.
 */
export interface ScriptedAnswer {
  /** For requests to this provider. Left out: to all, or to the one that `reason` belongs to. */
  readonly platform?: Platform | undefined;
  /** For requests to the device with this token; of web push the endpoint. Left out: to any device. */
  readonly token?: string | undefined;
  /**
   * A refusal with the provider's own word: APNs' `Unregistered`, FCM's `UNREGISTERED`, web push's `ExpiredSubscription`. The
   * status follows from it.
   */
  readonly reason?: ApnsReason | FcmReason | WebpushReason | undefined;
  /** A refusal with this HTTP status, and the provider's usual word for it. 502 and 504 have no body, as from a load balancer. */
  readonly status?: number | undefined;
  /**
   * An answer that is no refusal. `accept`: the provider takes the alert. `hang`: no answer ever comes. `reset`: the
   * connection is reset. `reset-stream`: only the request's HTTP/2 stream is. `refused-stream`: the same, with HTTP/2's promise
   * that nothing was processed.
   */
  readonly answer?: 'accept' | 'hang' | 'reset' | 'reset-stream' | 'refused-stream' | undefined;
  /** How many requests get it, 1 or more; then the next entry that fits is asked. Left out: all, until the script is changed. */
  readonly times?: number | undefined;
  /** For this share of the requests, chosen at random: above 0 and at most 1. Left out: all. */
  readonly share?: number | undefined;
  /** How long the answer takes: `"250ms"`, `"3s"`, at most an hour. Left out: the sandbox's latency. */
  readonly delay?: string | undefined;
  /** Of a refusal: the `Retry-After` header, in whole seconds: `"30s"`. */
  readonly retryAfter?: string | undefined;
  /** Of `INVALID_ARGUMENT`: the field that FCM calls invalid. `message.token` means that the token is not valid. */
  readonly field?: string | undefined;
  /** True: the device was alerted, although the answer is lost or says otherwise. The journal has it as accepted. */
  readonly alerted?: boolean | undefined;
}
