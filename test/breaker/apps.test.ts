import { expect, it } from 'vitest';
import { PLATFORMS } from '../../src/domain/notification.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';
import { waitFor } from '../support/wait.ts';
import { countAnswers, LONG, openBreakers, refused } from './support.ts';

const teacher = 'apns~teacher' as const;
const trialApp = 'apns~trial' as const; // would be the key of another trial, if it were written with a colon

it('each app has a breaker of its own, which all workers share', async () => {
  const prefix = testPrefix();
  const [one, other] = [openBreakers(prefix, LONG), openBreakers(prefix, LONG)];
  for (const { breakers } of [one, other]) breakers.use([teacher, trialApp]);
  one.breakers.report({ ...refused(), service: teacher });
  await waitFor(() => expect(other.breakers.current(teacher)).toMatchObject({ service: teacher, trouble: 'auth' }));
  for (const { breakers } of [one, other]) {
    expect([breakers.current('apns'), breakers.current('fcm'), breakers.current(trialApp)]).toEqual([
      ...[undefined, undefined, undefined],
    ]);
    expect([...breakers.all()].map(([account, open]) => [account, open?.trouble])).toEqual([
      ...[...PLATFORMS.map((platform) => [platform, undefined]), [teacher, 'auth'], [trialApp, undefined]],
    ]);
  }
  expect(await connectRedis().keys(`${prefix}:breaker:*`)).toEqual([`${prefix}:breaker:apns~teacher`]);
});

it('an app that is gone has none, and one that comes back learns of it anew', async () => {
  const { breakers } = openBreakers(testPrefix(), LONG);
  breakers.use([teacher]);
  breakers.report({ ...refused(), service: teacher });
  expect(breakers.current(teacher)).toBeDefined();
  await breakers.close();
  breakers.use([]);
  expect(breakers.current(teacher)).toBeUndefined();
  expect(await breakers.enter(teacher, 'msg')).toEqual({ kind: 'closed' });
  breakers.report({ ...refused(), service: teacher }); // an answer that was under way
  expect(breakers.current(teacher)).toBeUndefined();
  breakers.use([teacher]);
  await waitFor(() => expect(breakers.current(teacher)).toBeDefined());
});

it('many closed breakers are read in one call', async () => {
  const connection = countAnswers();
  const { breakers } = openBreakers(testPrefix(), LONG, connection.redis);
  const before = connection.answered();
  breakers.use(Array.from({ length: 900 }, (_, number) => `fcm~app-${number}` as const));
  await waitFor(() => expect(connection.answered()).toBeGreaterThan(before + 1));
  expect(connection.answered() - before).toBeLessThan(20);
});
