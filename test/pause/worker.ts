import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { createPauses } from '../../src/pause/redis-pauses.ts';

/**
 * What it does: `refuse` meets a refusal; `hold` takes the probe and keeps it; `end` takes the probe, finds the provider
 * well, closes, and ends by itself.
 */
export type Act = 'refuse' | 'hold' | 'end';

// A worker as a process of its own: `<redis url> <prefix> <act>`. It says on standard output what it learns.
const [url = '', prefix = '', act = ''] = process.argv.slice(2);
const redis = new Redis(url, { maxRetriesPerRequest: null });
const answer = { platform: 'apns', notificationId: 'msg-1', code: 'accepted' } as const;
const say = (line: string): void => void process.stdout.write(`${line}\n`);
const over = new AbortController();

const pauses = createPauses({
  redis,
  prefix,
  baseMs: 300,
  maxMs: 300,
  onChange({ pause, by }) {
    say(`${pause ? 'paused' : 'open'} by ${by}`);
    if (pause === undefined) over.abort();
  },
});
say('ready');
if (act === 'refuse') pauses.report({ ...answer, trouble: 'auth', code: 'InvalidProviderToken' });
while (act !== 'refuse' && !over.signal.aborted) {
  const entry = await pauses.enter('apns');
  if (entry.kind === 'probe') say('probe');
  if (entry.kind === 'probe' && act === 'hold') break;
  if (entry.kind === 'probe') pauses.report(answer, entry.probe);
  await sleep(20);
}
if (over.signal.aborted) {
  await pauses.close();
  redis.disconnect();
}
