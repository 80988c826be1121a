import { expect, test } from 'vitest';
import { calmRenewals } from '../../src/providers/apns-token.ts';
import type { ProviderToken } from '../../src/providers/apns-types.ts';

const MINUTE_MS = 60_000;

/** The client's token on a clock of our own. */
function tokenAt(clock: { ms: number }): ProviderToken {
  let generation = 0;
  let issuedAtMs = clock.ms;
  return {
    get generation() {
      return generation;
    },
    get current() {
      return `jwt-${generation}`;
    },
    isExpired: (seconds) => clock.ms - issuedAtMs >= seconds * 1_000,
    regenerate() {
      generation += 1;
      issuedAtMs = clock.ms;
    },
  };
}

test('a refused token is renewed at once, but a second time only after 20 minutes', () => {
  const clock = { ms: 0 };
  const token = tokenAt(clock);
  calmRenewals(token, () => clock.ms);
  token.regenerate(0);
  expect(token.current).toBe('jwt-1');
  clock.ms = 19 * MINUTE_MS;
  token.regenerate(1);
  expect(token.current).toBe('jwt-1');
  clock.ms = 20 * MINUTE_MS;
  token.regenerate(1);
  expect(token.current).toBe('jwt-2');
});

test('sends that were refused with the same token renew it once', () => {
  const clock = { ms: 0 };
  const token = tokenAt(clock);
  calmRenewals(token, () => clock.ms);
  clock.ms = 60 * MINUTE_MS;
  token.regenerate(0);
  token.regenerate(0);
  expect(token.current).toBe('jwt-1');
});
