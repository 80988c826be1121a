import { describe, expect, it } from 'vitest';
import { InputError } from '../../src/domain/faults.ts';
import { createMemoryLimiter } from '../../src/limiter/memory/memory-limiter.ts';
import { operationOf, OPERATIONS } from '../../src/operations/catalogue.ts';
import { fieldsOf } from '../../src/operations/fields.ts';
import { ask, type Operation, type Plan } from '../../src/operations/operation.ts';

const NOW = 1_795_269_600_000;
const POLICY = { rules: [{ max: 10, perMs: 60_000 }], minGapMs: 3_000 };

function named(name: string): Operation {
  const operation = operationOf(name);
  if (operation === undefined) throw new TypeError(`no operation ${name}`);
  return operation;
}

function plan(operation: Operation, input: unknown, now = NOW): Plan {
  const { fields, recipientId, names } = ask(operation, 'teacher-42', input);
  return operation.plan(fields, { recipientId, now, policy: POLICY, names });
}

it.each([
  ['block', { for: '2h', reason: "parents' evening" }],
  ['limit', { rules: '5/1m,50/1h' }],
  ['limit', { minGap: '0', for: '7d' }],
  ['limit', { rules: 'none', until: new Date(NOW + 1_000).toISOString() }],
  ['quiet', { timezone: 'Europe/Paris', from: '21:00', until: '07:00' }],
  ['quiet', { timezone: 'UTC', from: '21:00', until: '24:00', days: ['mon', 'fri'] }],
  ['cancel', { key: 'trip-77' }],
  ['cancel', { notification: 'msg-1' }],
])('%s %j is settled so that the same is done a moment later, as a form does', (name, input) => {
  const operation = named(name);
  const { deed, settled } = plan(operation, input);
  const texts = Object.fromEntries(Object.entries(settled).map(([field, value]) => [field, String(value)]));
  expect(plan(operation, texts, NOW + 500).deed).toEqual(deed);
});

it('each form begins with fields that are usable, but for what a person must say', async () => {
  const recipient = await createMemoryLimiter({ policy: POLICY }).inspect('teacher-42');
  let begun = 0;
  for (const operation of OPERATIONS) {
    const initial = operation.initial?.(recipient);
    if (initial === undefined) continue;
    const wanted = fieldsOf(operation).filter(({ isOptional }) => !isOptional);
    const said = Object.fromEntries(wanted.map(({ name }) => [name, 'exam']));
    expect(() => ask(operation, 'teacher-42', { ...initial, ...said })).not.toThrow();
    begun++;
  }
  expect(begun).toBeGreaterThan(2);
});

describe('faults', () => {
  it('are named as the fields are where they were given, all at once', () => {
    const names = { word: 'flag', of: (field: string) => `--${field}`, others: ['--clear'] } as const;
    const faultsOf = (name: string, input: unknown) => {
      try {
        ask(named(name), 'teacher-42', input, names);
      } catch (error) {
        return (error as InputError).faults.map(({ path, expected, found }) => `${path}: ${expected}, ${found}`);
      }
      return [];
    };
    expect(faultsOf('limit', {})).toEqual(['--rules: --rules, --minGap or --clear, none of them']);
    expect(faultsOf('limit', { rules: '0/1m', minGap: 'x', rule: '1/1m' })).toEqual([
      '--rules[0].max: an integer from 1 to 100000, 0',
      '--minGap: 0 or a duration such as 250ms, 3s, 1m, 2h or 1d, at most 31d, "x"',
      '--rule: no such field (did you mean rules?), one',
    ]);
    expect(faultsOf('block', null)).toEqual(['--: an object, null']);
  });

  it('of an end that has passed are found when the clock is known', () => {
    expect(() => plan(named('block'), { until: NOW - 1, reason: 'exam' })).toThrow(
      /until: expected an instant ahead of now/,
    );
    expect(() => plan(named('limit'), { rules: 'none', until: NOW })).toThrow(InputError);
    expect(() => plan(named('block'), { until: NOW + 367 * 86_400_000, reason: 'exam' })).toThrow(/by 366d at most/);
  });
});
