import { expect, it } from 'vitest';
import { createTransit } from '../../src/delivery/transit.ts';

/** A transit that has seen eight answers of this many milliseconds. */
function seasoned(platform: 'apns' | 'fcm', tookMs: number) {
  const transit = createTransit();
  for (let answers = 0; answers < 8; answers++) transit.arrival(platform, 0, tookMs);
  return transit;
}

it('takes what an answer took beyond the quickest one for time on the way there', () => {
  const { arrival } = seasoned('apns', 40);
  expect(arrival('apns', 1_000, 1_040)).toBe(1_000);
  expect(arrival('apns', 2_000, 2_010)).toBe(2_000);
  expect(arrival('apns', 3_000, 3_060)).toBe(3_050);
});

it('counts from the answer as long as it has seen few, on each platform', () => {
  const { arrival } = seasoned('apns', 40);
  expect(arrival('fcm', 1_000, 1_080)).toBe(1_080);
});

it('forgets how quick a provider used to be', () => {
  const { arrival } = seasoned('fcm', 5);
  for (let answers = 0; answers < 64; answers++) arrival('fcm', 1_000, 1_050);
  expect(arrival('fcm', 2_000, 2_050)).toBe(2_000);
});
