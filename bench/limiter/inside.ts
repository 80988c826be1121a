import type { Redis } from 'ioredis';
import type { Runner } from './paired.ts';
import { pump } from './pump.ts';

/**
 * Microseconds that Redis itself spends on one ask, by `INFO commandstats`. A script's time, and that of EXEC, include
 * the commands that they run; reading, parsing and answering are in none.
 */
export async function microsInRedis(redis: Redis, { measured, asks }: Runner): Promise<number> {
  await measured.prepare(asks);
  await redis.config('RESETSTAT');
  await pump(asks, () => measured.ask());
  const stats = await redis.info('commandstats');
  const micros = measured.commands.map((command) => {
    const found = new RegExp(`^cmdstat_${command}:calls=\\d+,usec=(\\d+)`, 'm').exec(stats)?.[1];
    if (found === undefined) throw new Error(`${measured.name}: expected calls of ${command}, found none`);
    return Number(found);
  });
  return micros.reduce((sum, usec) => sum + usec, 0) / asks;
}
