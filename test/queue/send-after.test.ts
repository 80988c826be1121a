import { describe, expect, onTestFinished, test } from 'vitest';
import { checkInput, createProducer, type Producer } from '../../src/queue/producer.ts';
import { testRedisUrl } from '../support/redis.ts';
import { notification, openQueues, present } from './support.ts';

const HOUR_MS = 3_600_000;

function produce(prefix: string): Producer {
  const producer = createProducer({ redisUrl: testRedisUrl(), prefix });
  onTestFinished(() => producer.close());
  return producer;
}

describe('sendAfter', () => {
  test('delays the job until then', async () => {
    const { prefix, queue } = openQueues();
    const sendAfter = Date.now() + HOUR_MS;
    const texts = [sendAfter, new Date(sendAfter).toISOString()];
    const producer = produce(prefix);
    for (const [n, at] of texts.entries()) await producer.enqueue(notification({ id: `n${n}`, sendAfter: at }));
    for (const id of ['n0', 'n1']) {
      const job = present(await queue.getJob(id));
      expect(job.timestamp + job.delay).toBeGreaterThanOrEqual(sendAfter - 1);
      expect(job.timestamp + job.delay).toBeLessThan(sendAfter + 1_000);
      expect(await job.getState()).toBe('delayed');
    }
  });

  test('that has passed delays nothing', async () => {
    const { prefix, queue } = openQueues();
    await produce(prefix).enqueue(notification({ id: 'n', sendAfter: Date.now() - 1 }));
    expect(await present(await queue.getJob('n')).getState()).toBe('prioritized');
  });

  test('begins the spread of a broadcast', async () => {
    const { prefix, queue } = openQueues();
    const sendAfter = Date.now() + HOUR_MS;
    const inputs = Array.from({ length: 40 }, (_, n) => notification({ id: `n${n}`, sendAfter }));
    await produce(prefix).enqueueMany(inputs, { spreadOverMs: 2 * HOUR_MS });
    const jobs = await queue.getDelayed();
    expect(jobs).toHaveLength(40);
    const due = jobs.map(({ timestamp, delay }) => timestamp + delay - sendAfter);
    expect(Math.min(...due)).toBeGreaterThanOrEqual(-1);
    expect(Math.max(...due)).toBeLessThanOrEqual(2 * HOUR_MS + 1_000);
    expect(Math.max(...due) - Math.min(...due)).toBeGreaterThan(HOUR_MS / 2);
  });

  test('must come before expiresAt, also at the end of a spread', async () => {
    const { prefix, queue } = openQueues();
    const at = Date.now() + HOUR_MS;
    const inputs = [
      notification({ sendAfter: at, expiresAt: at }),
      notification({ sendAfter: at, expiresAt: at + HOUR_MS }),
    ];
    const [equal, after] = await produce(prefix).enqueueMany(inputs);
    expect(equal).toMatchObject({ kind: 'invalid', faults: [{ path: 'sendAfter' }] });
    expect(after).toMatchObject({ kind: 'added' });
    const late: unknown[] = [];
    const onResult = (result: unknown): void => void late.push(result);
    await produce(prefix).enqueueMany(inputs.slice(1), { spreadOverMs: HOUR_MS, onResult });
    expect(late).toMatchObject([{ kind: 'invalid', faults: [{ path: 'expiresAt' }] }]);
    expect(await queue.getJobCountByTypes()).toBe(1);
  });

  test('lies at most 366 days ahead', async () => {
    const { prefix } = openQueues();
    const [far] = await produce(prefix).enqueueMany([notification({ sendAfter: Date.now() + 367 * 24 * HOUR_MS })]);
    expect(far).toMatchObject({ kind: 'invalid', faults: [{ path: 'sendAfter' }] });
  });
});

describe('expiresAt', () => {
  test.each([
    ['microseconds', Date.now() * 1_000],
    ['the year 9999', '9999-12-31T23:59:59Z'],
    ['the last instant of Date', 8.64e15],
    ['367 days ahead', Date.now() + 367 * 24 * HOUR_MS],
  ])('of %s is refused: apns-expiration has 32 bits', (_, expiresAt) => {
    expect(checkInput(notification({ expiresAt }))).toMatchObject({
      kind: 'invalid',
      faults: [{ path: 'expiresAt' }],
    });
  });

  test('may lie 365 days ahead', () => {
    expect(checkInput(notification({ expiresAt: Date.now() + 365 * 24 * HOUR_MS }))).toMatchObject({ kind: 'added' });
  });

  test('and a sendAfter that both lie too far ahead are both told', () => {
    const sendAfter = Date.now() * 1_000;
    expect(checkInput(notification({ sendAfter, expiresAt: sendAfter + 1 }))).toMatchObject({
      faults: [{ path: 'sendAfter' }, { path: 'expiresAt' }],
    });
  });
});
