import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { createProducer, type EnqueueInput, type Producer, type ProducerOptions } from '../../src/producer/producer.ts';
import { RedisAwayError } from '../../src/redis/connection.ts';
import { notification, openQueues } from '../queue/support.ts';
import { testTarget } from '../support/redis.ts';

// A sequence that pauses for a long time, such as the rows of a slow query.

function produce(options: ProducerOptions): Producer {
  const producer = createProducer(options);
  onTestFinished(() => producer.close());
  return producer;
}

/** Yields one input; what comes then waits until `end`. */
function silent(onSilent: () => void = () => undefined) {
  const { promise, resolve: end } = Promise.withResolvers<undefined>();
  async function* inputs(): AsyncGenerator<EnqueueInput> {
    yield notification({ id: 'one' });
    onSilent();
    await promise;
  }
  onTestFinished(() => {
    end(undefined);
  });
  return { inputs: inputs(), end };
}

test('after its signal has fired, no batch begins', async () => {
  const { prefix, queue } = openQueues();
  const stop = new AbortController();
  const { inputs, end } = silent(() => {
    stop.abort(new Error('enough'));
  });
  const ended = produce({ ...testTarget(), prefix }).enqueueMany(inputs, { signal: stop.signal });
  const failed = expect(ended).rejects.toThrow('enough');
  await sleep(300); // an input waits 100 ms for others of its batch
  end(undefined);
  await failed;
  expect(await queue.getJobCountByTypes('prioritized')).toBe(0);
});

test('that Redis is away is reported at once, not with the next input', async () => {
  const { inputs } = silent();
  const away = produce({ redisUrl: 'redis://127.0.0.1:1', timeoutMs: 200 });
  await expect(away.enqueueMany(inputs, {})).rejects.toThrow(RedisAwayError);
});
