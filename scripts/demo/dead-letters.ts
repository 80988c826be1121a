import { tokenOf } from '../../src/domain/device.ts';
import type { DeadLetterReason } from '../../src/domain/outcome.ts';
import { printable } from '../../src/domain/faults.ts';
import type { StoredDeadLetter } from '../../src/dead-letters/list.ts';
import { factsOf } from '../dead-letters/facts.ts';
import { cut, table } from '../support/table.ts';
import { MISCONFIGURED, type Morning } from './morning.ts';
import type { Check } from './verdict.ts';

/** A dead letter as the demo shows it, on the terminal, in `--json` and in the report. Holds no token. */
export interface DemoDeadLetter {
  /** The dead letter's id. It is that of its notification. */
  readonly id: string;
  /** Null if the notification has none that is valid. */
  readonly recipientId: string | null;
  readonly reason: DeadLetterReason;
  /** The cause, in the worker's words. */
  readonly message: string;
}

/** Why a morning at a school has dead letters for each of these reasons. */
const WHY: Partial<Record<DeadLetterReason, string>> = {
  invalid: 'do not fit on purpose, as from a producer in another language',
  'bad-token': "refused until the app's configuration is corrected",
  unregistered: 'the app is gone from the only device',
};
const MESSAGE_WIDTH = 100;

export function demoDeadLetter(stored: StoredDeadLetter): DemoDeadLetter {
  const { id, reason, message, notification } = factsOf(stored);
  return { id, recipientId: notification.recipientId ?? null, reason, message };
}

/** Those of one reason together, the largest group first. */
export function groupByReason(
  letters: readonly DemoDeadLetter[],
): { readonly reason: DeadLetterReason; readonly why: string | undefined; readonly letters: DemoDeadLetter[] }[] {
  const groups = [...Map.groupBy(letters, ({ reason }) => reason)];
  return groups
    .map(([reason, own]) => ({ reason, why: WHY[reason], letters: own.toSorted((a, b) => a.id.localeCompare(b.id)) }))
    .toSorted((a, b) => b.letters.length - a.letters.length || a.reason.localeCompare(b.reason));
}

/** One line each under its reason. `columns`: the terminal's width; without a terminal a message has 100 characters. */
export function renderDeadLetters(letters: readonly DemoDeadLetter[], columns?: number): string {
  const groups = groupByReason(letters).map(({ reason, why, letters: own }) => {
    const rows = own.map(({ id, recipientId, message }) => [
      `    ${printable(id)}`,
      printable(recipientId ?? '-'),
      columns === undefined ? cut(printable(message), MESSAGE_WIDTH) : printable(message),
    ]);
    return [`  ${own.length} ${reason}${why === undefined ? '' : `: ${why}`}`, ...table(rows, { columns })].join('\n');
  });
  return [`Dead letters: ${letters.length}, each with its reason`, ...groups].join('\n');
}

/** Whether the dead letters are those that the morning's troubles make, each for the reason that its trouble has. */
export function checkDeadLetters(letters: readonly DemoDeadLetter[], morning: Morning): Check {
  const expected = expectedReasons(morning);
  const right = letters.filter(({ id, reason }) => expected.get(id) === reason).length;
  const surplus = letters.length - right;
  return {
    what: 'dead letters, each for the reason that was to be expected',
    found: `${right} of ${expected.size}${surplus === 0 ? '' : `, and ${surplus} others`}`,
    ok: right === expected.size && surplus === 0,
  };
}

/** Notification → reason, for those that no device can get. */
function expectedReasons({ valid, malformed, troubles }: Morning): Map<string, DeadLetterReason> {
  const ofToken = reasonsByToken(troubles);
  const undeliverable = valid.flatMap(({ id, devices }) => {
    const reasons = new Set(devices.map((device) => ofToken.get(tokenOf(device))));
    const [reason] = reasons;
    return reason !== undefined && reasons.size === 1 ? [[id, reason] as const] : [];
  });
  return new Map([...malformed.map(({ id }) => [id, 'invalid'] as const), ...undeliverable]);
}

/** Device token → why it can get nothing. */
function reasonsByToken(troubles: Morning['troubles']): Map<string | undefined, DeadLetterReason> {
  // What is answered only a few times is an overload, and is tried again.
  const lasting = troubles.filter(({ times }) => times === undefined);
  return new Map(lasting.map(({ token, reason }) => [token, reason === MISCONFIGURED ? 'bad-token' : 'unregistered']));
}
