import { expect, it } from 'vitest';
import { accountFor } from '../../src/delivery/account.ts';
import type { Arrived } from '../../src/delivery/send.ts';
import type { Go } from '../../src/delivery/slot.ts';
import { LimiterUnavailableError } from '../../src/limiter/errors.ts';

const SEND_AT = 1_000;
const slot: Go = {
  kind: 'go',
  held: { recipientId: 'teacher-42', id: 'msg/0' },
  asks: 0,
  at: 1_795_284_000_000,
  sendAt: SEND_AT,
  sendBy: SEND_AT + 500,
  leaveBy: SEND_AT + 25,
};

function alert(lateMs: number, alerted: 'yes' | 'no' | 'maybe'): Arrived {
  const meaning = alerted === 'yes' ? 'accepted' : 'later';
  const reply = { meaning, code: '200', alerted } as const;
  return { label: 'apns#0', platform: 'apns', reply, arrivedAt: SEND_AT + lateMs };
}

/** A limiter that is away for the first so many calls. */
function limiterAway(times: number) {
  const calls: (string | number)[] = [];
  const told = (call: string | number): Promise<boolean> => {
    calls.push(call);
    return calls.length <= times ? Promise.reject(new LimiterUnavailableError('away')) : Promise.resolve(true);
  };
  return { calls, limiter: { refund: () => told('refund'), postpone: (_: unknown, at: number) => told(at) } };
}

it('tells the limiter of a late alert again until it answers: the next one would come too close behind it', async () => {
  const { calls, limiter } = limiterAway(3);
  await accountFor(slot, [alert(10, 'yes'), alert(80, 'maybe')], limiter);
  expect(calls).toEqual([slot.at + 80, slot.at + 80, slot.at + 80, slot.at + 80]);
});

it('gives the slot back once where nobody was alerted: a slot too many is on the safe side', async () => {
  const { calls, limiter } = limiterAway(1);
  await accountFor(slot, [alert(10, 'no')], limiter);
  expect(calls).toEqual(['refund']);
});

it('tells nothing of an alert that was on time', async () => {
  const { calls, limiter } = limiterAway(0);
  await accountFor(slot, [alert(10, 'yes')], limiter);
  expect(calls).toEqual([]);
});
