import { Redis } from 'ioredis';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { installRivals, type Rivals } from '../install.ts';
import type { Report, Suite, SuiteOptions } from '../suite.ts';
import { flexibleAsks, ourAsks, rollingAsks } from './asks.ts';
import { createCases } from './cases.ts';
import { bytesPerRecipient, type Crowd } from './memory.ts';
import { measureMoving } from './moving.ts';
import { jsonOf, type Bytes, type Results } from './results.ts';
import { flexibleSends, ourSends, rollingSends, type SendsOf } from './sends.ts';
import { measureSpeed } from './speed.ts';
import { asMarkdown, asText, tablesOf } from './table.ts';

export const limiterSuite: Suite = {
  name: 'limiter',
  description: 'asks a second, time and bytes in Redis, and asks of a blocked crowd, beside other limiters',
  run,
};

async function run(options: SuiteOptions): Promise<Report> {
  const rivals = options.quick ? undefined : await installRivals(options.say);
  const server = await startEmbeddedRedis({ say: options.say, install: true });
  const redis = new Redis(server.url);
  try {
    return reportOf(await measure(redis, rivals, options));
  } finally {
    redis.disconnect();
    await server.close();
  }
}

async function measure(redis: Redis, rivals: Rivals | undefined, options: SuiteOptions): Promise<Results> {
  const { quick, say } = options;
  const start = performance.now();
  const speed = await measureSpeed(redis, createCases(redis, rivals), options);
  say('bytes a recipient, with 10 and 60 sends');
  const bytes = await measureBytes(rivals, quick);
  say('asks of a crowd blocked on one recipient');
  const asks = {
    ours: await ourAsks(redis),
    ...(rivals && { rolling: await rollingAsks(rivals), flexible: await flexibleAsks(rivals) }),
  };
  say('moving all that wait for one recipient');
  const moving = await measureMoving(redis, quick ? 200 : 10_000);
  const seconds = (performance.now() - start) / 1_000;
  const redisVersion = /^redis_version:(\S+)/m.exec(await redis.info('server'))?.[1] ?? 'unknown';
  const versions = { node: process.versions.node, redis: redisVersion, ...rivals?.versions };
  return { quick, seconds, versions, ...speed, bytes, asks, moving };
}

/** 100,000 recipients for pushpacer with 60 sends; fewer in all other cases, since a recipient takes the same memory. */
async function measureBytes(rivals: Rivals | undefined, quick: boolean): Promise<Results['bytes']> {
  // A power of two fills Redis's hash tables, so that a recipient's share of them is the same for every limiter.
  const some: Crowd = quick ? { originals: 16, copies: 64 } : { originals: 256, copies: 64 };
  const hundredThousand: Crowd = quick ? some : { originals: 1_000, copies: 100 };
  const both = async (sendsOf: SendsOf, crowdWith60 = some): Promise<Bytes> => ({
    with10: await bytesPerRecipient(sendsOf, 10, some),
    with60: await bytesPerRecipient(sendsOf, 60, crowdWith60),
  });
  return {
    ours: await both(ourSends, hundredThousand),
    ...(rivals && {
      rolling: await both((redis, sends) => rollingSends(rivals, redis, sends)),
      flexible: await both((redis, sends) => flexibleSends(rivals, redis, sends)),
    }),
  };
}

function reportOf(results: Results): Report {
  const { quick, seconds, versions } = results;
  const list = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  const head = `${quick ? 'A quick check, no measurement. ' : ''}${list.join(', ')}; ${seconds.toFixed(0)} s.`;
  const tables = tablesOf(results);
  return {
    json: jsonOf(results),
    text: [...tables.map(asText), head].join('\n\n'),
    markdown: [...tables.map(asMarkdown), head].join('\n\n'),
  };
}
