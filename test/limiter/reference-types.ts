import type { CategoryPolicy, Policy } from '../../src/domain/limits.ts';
import type { Window } from '../../src/domain/quiet-windows.ts';
import type { Admission } from '../../src/limiter/limiter.ts';
import type { Taken } from './reference-seeker.ts';

/** What a limiter answers, but for the instant on this process's own clock. */
export interface Answer extends Omit<Admission, 'sendAt' | 'kind'> {
  readonly kind: Admission['kind'];
  readonly because?: 'max-wait' | 'max-pending';
  readonly at?: number;
  readonly waitMs?: number;
  readonly repeated?: boolean;
}

export interface ReferenceOptions {
  readonly policy: Policy;
  readonly categories?: Readonly<Record<string, CategoryPolicy>>;
  /** The quiet times of everybody. */
  readonly quiet?: readonly Window[];
  readonly countBlocked?: boolean;
  readonly keepIds?: boolean;
  /** How long what was sent is remembered: at least the longest of all windows. */
  readonly keepMs: number;
  /** Which of the reservations of one instant is moved first: the one that was placed there first, or the first by its id. */
  readonly tie?: 'placed' | 'id';
}

export interface Decision {
  readonly answer: Answer;
  readonly sent?: readonly Taken[];
  readonly reserved?: readonly Taken[];
  readonly missed?: ReadonlyMap<string, number>;
}
