import type { Admission, Ask, Follow, Limiter } from './limiter.ts';

/** An ask of a notification that waits together with others of its recipient. */
export interface Join {
  /** `latest`: only the newest goes, in the slot of the oldest. `digest`: one goes for all. */
  readonly kind: 'latest' | 'digest';
  /** What waits under the same key waits together. */
  readonly key: string;
  /** The age of the notification: epoch milliseconds. A later one takes the place of an earlier one. */
  readonly at: number;
  /** When it expires, epoch milliseconds: it does not join a digest that may expire before it. Default: never. */
  readonly expires?: number | undefined;
  /** At most so many notifications are in one digest. */
  readonly max: number;
}

/** The id of such an ask is the notification's job id, `/` and a number: one notification has several asks. */
export interface WaitingAsk extends Ask {
  /** With whom it waits if it is blocked. Default: alone. */
  readonly join?: Join | undefined;
  /** If it is refused it will be sent without a slot: then it is too late to cancel it. Default: false. */
  readonly claim?: boolean | undefined;
}

/** The notification ends without being sent. It gets the same answer whenever it asks within a day. */
export interface Ended {
  /** It is not to be sent. */
  readonly kind: 'ended';
  /** Somebody canceled it; a newer one took its slot; or it is a part of a digest that waits. */
  readonly how: 'canceled' | 'superseded' | 'merged';
  /** The job of the newer one, or of the digest; absent for `canceled`. */
  readonly by?: string;
  /** It gave back a slot that lay ahead: those behind it may move up. */
  readonly gaveBackSlot: boolean;
}

/** What a digest is made of. */
export interface Digest {
  /** How many notifications. */
  readonly count: number;
  /** Whether the one that has the slot is one of them: false if it was canceled, and goes for the others. */
  readonly own: boolean;
}

/** A limiter whose asks may wait together, and be canceled (canceller.ts). */
export interface WaitingLimiter extends Omit<Limiter, 'admit'> {
  /** Asks for a slot. An admission of a digest says what it is made of. */
  admit(ask: WaitingAsk): Promise<(Admission & { readonly digest?: Digest }) | Ended>;
  /** Gives each reservation of the recipient the earliest slot that is free, in their order. */
  moveUp(recipientId: string, follow: Follow): Promise<void>;
}
