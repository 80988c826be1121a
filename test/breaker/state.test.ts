import { describe, expect, it } from 'vitest';
import { failureOf, found, merge, openMs, type State } from '../../src/breaker/state.ts';
import type { Evidence } from '../../src/breaker/breaker.ts';
import { TROUBLES, type Trouble } from '../../src/domain/trouble.ts';

const TERMS = { baseMs: 5_000, maxMs: 120_000 };
const known: State = {
  trouble: 'quota',
  code: 'QUOTA_EXCEEDED',
  since: 1_000,
  until: 61_000,
  step: 2,
  failedId: 'msg-1',
  change: 'first',
};

it('stays open for twice as long each time, up to the longest, and for a quota as long as the provider says', () => {
  const steps = [0, 1, 2, 3, 4, 5, 5_000];
  const auth = steps.map((step) => openMs({ trouble: 'auth', code: '' }, step, TERMS));
  expect(auth).toEqual([5_000, 10_000, 20_000, 40_000, 80_000, 120_000, 120_000]);
  const quota = (retryAfterMs: number | undefined) => openMs({ trouble: 'quota', code: '', retryAfterMs }, 3, TERMS);
  expect([undefined, 0, 7_000.5, 300_000, Number.MAX_SAFE_INTEGER].map(quota)).toEqual([
    60_000, 5_000, 7_001, 300_000, 86_400_000,
  ]);
});

describe('an answer to a send that was under way', () => {
  const at = { now: 30_000, change: 'second' };
  it('changes nothing where it says the same, or less', () => {
    expect(found(known, { trouble: 'quota', code: 'other' }, at, TERMS)).toBe(known);
    expect(found(known, { trouble: 'quota', code: 'other', retryAfterMs: 31_900 }, at, TERMS)).toBe(known);
    expect(found(known, { trouble: 'outage', code: 'timeout' }, at, TERMS)).toBe(known);
  });

  it('makes it longer only where it names a time', () => {
    const longer = found(known, { trouble: 'quota', code: 'other', retryAfterMs: 90_000 }, at, TERMS);
    expect(longer).toEqual({ ...known, until: 120_000, change: 'second' });
  });

  it('gives the name of the worse trouble, and leaves the time', () => {
    const worse = found(known, { trouble: 'auth', code: 'InvalidProviderToken' }, at, TERMS);
    expect(worse).toEqual({ ...known, trouble: 'auth', code: 'InvalidProviderToken', change: 'second' });
    expect(found(worse, { trouble: 'configuration', code: 'DeviceTokenNotForTopic' }, at, TERMS)).toBe(worse);
  });
});

it('what two workers found at once is the worse trouble for the longer quota, whoever was first', () => {
  const auth: State = { ...known, trouble: 'auth', code: 'Forbidden', until: 6_000, change: 'second' };
  for (const [first, second] of [
    [known, auth],
    [auth, known],
  ] as const) {
    expect(merge(first, second)).toMatchObject({ trouble: 'auth', code: 'Forbidden', until: 61_000 });
  }
  expect(merge(undefined, auth)).toBe(auth);
});

describe("a trial's answer", () => {
  const evidence = (fields: Partial<Evidence>): Evidence => ({
    platform: 'apns',
    notificationId: 'msg-2',
    recipientId: 'person',
    code: 'new',
    ...fields,
  });
  const failures = (fields: Partial<Evidence>) =>
    TROUBLES.map((trouble) => failureOf({ trouble, code: 'old' }, evidence(fields))?.trouble);

  it.each<[name: string, fields: Partial<Evidence>, failure: (Trouble | undefined)[]]>([
    ['a good one', {}, [undefined, undefined, undefined, undefined]],
    ['refused credentials', { trouble: 'auth' }, ['auth', 'auth', 'auth', undefined]],
    ['a quota of all', { trouble: 'quota' }, ['quota', 'quota', 'quota', undefined]],
    ['no connection', { suspect: 'outage' }, ['auth', 'configuration', 'quota', 'outage']],
    ["a device's quota", { suspect: 'quota' }, [undefined, undefined, 'quota', undefined]],
    ['a bad token', { suspect: 'configuration' }, [undefined, 'configuration', undefined, undefined]],
  ])('%s closes the breaker, or says why not (auth, configuration, quota, outage)', (_, fields, expected) => {
    expect(failures(fields)).toEqual(expected);
  });

  it('that never came keeps the code of the trouble that stands', () => {
    expect(failureOf(known, evidence({ suspect: 'outage' }))?.code).toBe('QUOTA_EXCEEDED');
    expect(failureOf(known, evidence({ suspect: 'quota' }))?.code).toBe('new');
  });
});
