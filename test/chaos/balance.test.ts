import { describe, expect, it } from 'vitest';
import { countBalance } from '../../../chaos/balance.ts';
import { completedOf, deadOf, enqueuedOf, entryOf, OTHER_TOKEN, TOKEN } from './facts.ts';

const nothing = { completed: [], dead: [], queued: [] };
const two = [
  { platform: 'apns' as const, token: TOKEN },
  { platform: 'fcm' as const, token: OTHER_TOKEN },
];

describe('the balance', () => {
  it('adds up where everything came to one end', () => {
    const enqueued = enqueuedOf(
      { id: 'a' },
      { id: 'b' },
      { id: 'c', expiresAt: 1 },
      { id: 'd', onThrottle: 'drop' },
      { id: 'e' },
    );
    const ends = {
      completed: [completedOf('a'), completedOf('c', 'expired'), completedOf('d', 'dropped')],
      dead: [deadOf('b')],
      queued: ['e'],
    };
    expect(countBalance(enqueued, [entryOf('a', 0)], ends)).toEqual({
      notifications: 5,
      delivered: 1,
      deadLettered: 1,
      deadLetters: { unregistered: 1 },
      expired: 1,
      dropped: 1,
      superseded: 0,
      merged: 0,
      canceled: 0,
      stillQueued: 1,
      unaccounted: 0,
      lost: 0,
      suspects: [],
    });
  });

  it('calls lost what left no trace', () => {
    expect(countBalance(enqueuedOf({ id: 'a' }), [], nothing)).toMatchObject({
      lost: 1,
      unaccounted: 1,
      suspects: ['a: found nowhere'],
    });
  });

  it('calls lost what the queue holds for delivered and no provider has seen', () => {
    const refused = entryOf('a', 0, { accepted: false, status: 503 });
    const ends = { ...nothing, completed: [completedOf('a')] };
    expect(countBalance(enqueuedOf({ id: 'a' }), [refused], ends)).toMatchObject({ delivered: 0, lost: 1 });
  });

  it('calls lost what one of two devices never got, unless the job says that it failed there', () => {
    const enqueued = enqueuedOf({ id: 'a', devices: two });
    const count = (progress: object) =>
      countBalance(enqueued, [entryOf('a', 0)], { ...nothing, completed: [completedOf('a', 'delivered', progress)] });
    expect(count({})).toMatchObject({ delivered: 1, lost: 1 });
    expect(count({ devices: { 'fcm#1': 'unregistered' } })).toMatchObject({ delivered: 1, lost: 0 });
  });

  it('lets a notification expire that had reached one of its devices', () => {
    const enqueued = enqueuedOf({ id: 'a', devices: two, expiresAt: 1 });
    const ends = { ...nothing, completed: [completedOf('a', 'delivered', { devices: { 'apns#0': 'delivered' } })] };
    expect(countBalance(enqueued, [entryOf('a', 0)], ends)).toMatchObject({ delivered: 1, lost: 0 });
  });

  it.each([
    ['two ends', { ...nothing, completed: [completedOf('a')], dead: [deadOf('a')] }],
    ['an end that it cannot have', { ...nothing, completed: [completedOf('a', 'expired')] }],
    ['an end without an outcome', { ...nothing, completed: [completedOf('a', 'none')] }],
    ['an end and a job', { ...nothing, completed: [completedOf('a')], queued: ['a'] }],
  ])('does not account for one with %s', (_what, ends) => {
    expect(countBalance(enqueuedOf({ id: 'a' }), [entryOf('a', 0)], ends)).toMatchObject({ unaccounted: 1 });
  });

  it('does not account for what nobody enqueued', () => {
    const ends = { ...nothing, queued: ['x'] };
    expect(countBalance(new Map(), [entryOf('y', 0)], ends)).toMatchObject({ unaccounted: 2, suspects: ['y: not enqueued', 'x: not enqueued'] });
  });
});
