import type { Rule } from '../../src/domain/limits.ts';

/** The provider takes the alert. */
export interface Accept {
  readonly kind: 'accept';
  /** The body in place of the provider's own, which no client can read. */
  readonly body?: string;
  /** How long the answer takes, in place of the server's latency; milliseconds. */
  readonly delayMs?: number;
}

/** The provider answers with an error, in its own words. */
export interface Refuse {
  readonly kind: 'refuse';
  /** The HTTP status. */
  readonly status: number;
  /** APNs' `reason` (`Unregistered`), or the `errorCode` of FCM's `FcmError` (`UNREGISTERED`); none where left out. */
  readonly reason?: string;
  /** FCM only: the sentence for a person. */
  readonly message?: string;
  /** FCM only: the fields that the answer calls invalid. */
  readonly violations?: readonly FieldViolation[];
  /** FCM only: APNs' answer to the push, which FCM passes on. */
  readonly apns?: { readonly statusCode: number; readonly reason: string };
  /**
   * FCM only: whose quota was exceeded. The answer has a `google.rpc.QuotaFailure`; `project` without a `reason` has an
   * `ErrorInfo`, as Google's front end sends it.
   */
  readonly quota?: 'device' | 'project';
  /** The `Retry-After` header: seconds or an HTTP date. */
  readonly retryAfter?: string;
  /** APNs only: since when the token has been invalid, in epoch milliseconds. */
  readonly timestamp?: number;
  /** Answer with the status alone, as a load balancer in front of a provider does. */
  readonly emptyBody?: boolean;
  /** The body in place of the provider's own: a load balancer's HTML, or half of an answer. */
  readonly body?: string;
  /** The device was alerted although the answer says otherwise; the journal has it as accepted. */
  readonly accepted?: boolean;
  /** How long the answer takes, in place of the server's latency; milliseconds. */
  readonly delayMs?: number;
}

/** No answer ever comes; the connection stays up. */
interface Hang {
  readonly kind: 'hang';
  readonly accepted?: boolean;
}

/** The answer is cut off: the TCP connection is reset, or only the HTTP/2 stream. */
export interface Reset {
  readonly kind: 'reset';
  /** `refused-stream` is HTTP/2's promise that nothing was processed. Over HTTP/1.1 every reset is the connection's. */
  readonly scope?: 'connection' | 'stream' | 'refused-stream';
  readonly accepted?: boolean;
  /** How long the answer takes, in place of the server's latency; milliseconds. */
  readonly delayMs?: number;
}

/** What a loopback provider does with one valid request. */
export type Answer = Accept | Refuse | Hang | Reset;

/** One entry of a `google.rpc.BadRequest`. */
export interface FieldViolation {
  /** `message.token` */
  readonly field: string;
  readonly description: string;
}

/** An answer for a share of the requests. */
export interface Rate {
  /** 0 to 1; the rates of one list add up to 1 or less. */
  readonly rate: number;
  readonly answer: Answer;
}

const ACCEPT: Accept = { kind: 'accept' };

/** Whether the alert reaches the device, whatever the answer says. */
export function isAccepted(answer: Answer): boolean {
  return answer.kind === 'accept' || answer.accepted === true;
}

/** What the sandbox's script answers to a request with this token; undefined if it has no entry for it. */
type Scripted = (token: string) => Answer | undefined;

/** Chooses the next answer: by the token's own list, else by the sandbox's script, else by the rates, else the default. */
export class AnswerQueue {
  readonly #random: () => number;
  readonly #scripted: Scripted;
  readonly #scripts = new Map<string, Answer[]>();
  #rates: readonly Rate[] = [];
  #default: Answer = ACCEPT;

  /** `random` gives numbers from 0 up to 1; one is drawn for each answer that the rates may decide. */
  constructor(random: () => number, scripted: Scripted = () => undefined) {
    this.#random = random;
    this.#scripted = scripted;
  }

  /** One answer for each request to the token; replaces what is left of an earlier script. */
  script(token: string, answers: readonly Answer[]): void {
    this.#scripts.set(token, [...answers]);
  }

  setDefault(answer: Answer = ACCEPT): void {
    this.#default = answer;
  }

  setRates(rates: readonly Rate[]): void {
    const sum = rates.reduce((total, { rate }) => total + rate, 0);
    if (rates.some(({ rate }) => !(rate >= 0)) || sum > 1 + Number.EPSILON * rates.length) {
      throw new RangeError(`rates: expected shares of 0 or more that add up to 1 or less, found a sum of ${sum}`);
    }
    this.#rates = [...rates];
  }

  next(token: string): Answer {
    const script = this.#scripts.get(token);
    const first = script?.shift();
    if (script?.length === 0) this.#scripts.delete(token);
    return first ?? this.#scripted(token) ?? this.#drawn() ?? this.#default;
  }

  #drawn(): Answer | undefined {
    if (this.#rates.length === 0) return undefined;
    let left = this.#random();
    return this.#rates.find(({ rate }) => (left -= rate) < 0)?.answer;
  }
}

/** A push service's own limit of a website's pushes; a rolling window. */
export class SiteQuota {
  readonly #rule: Rule;
  readonly #taken = new Map<string, number[]>();

  constructor(rule: Rule) {
    this.#rule = rule;
  }

  /** Counts one alert at `at` (milliseconds) where there is room for it. */
  take(token: string, at: number): boolean {
    const recent = (this.#taken.get(token) ?? []).filter((instant) => instant > at - this.#rule.perMs);
    const hasRoom = recent.length < this.#rule.max;
    if (hasRoom) recent.push(at);
    this.#taken.set(token, recent);
    return hasRoom;
  }

  /** When there is room again after `take` found none, in milliseconds from `at`. */
  roomInMs(token: string, at: number): number {
    const [oldest = at] = this.#taken.get(token) ?? [];
    return Math.max(0, oldest + this.#rule.perMs - at);
  }
}

/** What FCM calls invalid: a field, or the token of an iPhone by this word of APNs. */
export interface Invalid {
  readonly field?: string | undefined;
  readonly apns?: string | undefined;
}

/** A provider's own words for its refusals, as a script names them. */
export interface ProviderWords {
  /** As people write the provider. */
  readonly name: string;
  /** Every word with its status. No two providers have the same one. */
  readonly reasons: Readonly<Record<string, number>>;
  /** The word for a status that stands alone. */
  readonly usual: Readonly<Record<number, string>>;
  /** The refusal with one of the words. `nowMs`: since when APNs calls a token gone. */
  readonly refusal: (reason: string, invalid: Invalid, nowMs: number) => Refuse;
}
