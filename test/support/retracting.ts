import { expect } from 'vitest';
import type { Notification } from '../../src/notification/notification.ts';
import { retractionIn, screensOf } from '../../sandbox/screen.ts';
import { makeNotification } from './push.ts';
import type { ReplicaBench } from './replica.ts';
import { waitFor } from './wait.ts';

/** What a retract answers that was about nothing. */
export const NONE = { canceled: 0, retracting: 0, ended: 0, unknown: 0 };
/** Limits that hold nothing back. */
export const FAST = { LIMIT_RULES: '1000/1m', LIMIT_MIN_GAP: '0', LIMIT_BACKGROUND_RULES: '1000/1m' };

export const alertOf = (title: string, more: Partial<Notification> = {}) =>
  makeNotification({ alert: { title }, ...more });

/** What the phones and browsers show. */
export function shown({ sandbox }: Pick<ReplicaBench, 'sandbox'>): (string | undefined)[] {
  return [...screensOf(sandbox.journal.all).values()].flatMap((screen) =>
    [...screen.values()].map(({ title }) => title),
  );
}

/** The lists of ids that the devices got, in the order of arrival. */
export function retractions({ sandbox }: ReplicaBench): (readonly string[])[] {
  return sandbox.journal.accepted
    .flatMap((entry) => [retractionIn(entry)?.retract ?? []])
    .filter(({ length }) => length > 0);
}

/** Resolves when nothing is shown any more. */
export const goes = (bench: ReplicaBench) => waitFor(() => expect(shown(bench)).toEqual([]));
