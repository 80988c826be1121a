import type { Redis } from 'ioredis';
import { withClient, withSurroundings } from '../redis.ts';
import { installRivals, type Rivals } from '../rivals.ts';
import {
  reportOf,
  round,
  rounded,
  wholeOf,
  type Facts,
  type Middle,
  type Report,
  type Suite,
  type SuiteOptions,
  type Table,
} from '../suite.ts';
import { createCases } from './cases.ts';
import { BLOCKED_JOBS, flexibleAsks, measureMoving, ourAsks, rollingAsks, type Asks, type Moving } from './crowd.ts';
import { bytesPerRecipient, flexibleSends, ourSends, rollingSends, type Crowd, type SendsOf } from './memory.ts';
import { measureSpeed, type Speed } from './speed.ts';

export const limiterSuite: Suite = {
  name: 'limiter',
  description: 'asks a second, time and bytes in Redis, and asks of a blocked crowd, beside other limiters',
  async run(options) {
    const rivals = options.quick ? undefined : await installRivals(options.say);
    return withSurroundings(options.say, ({ redisUrl }, version) =>
      withClient(redisUrl, (redis) => measure(redis, version, rivals, options)),
    );
  },
};

/** pushpacer's, and where they are measured, those of rolling-rate-limiter and rate-limiter-flexible. */
interface Each<T> {
  readonly ours: T;
  readonly rolling?: T;
  readonly flexible?: T;
}

/** Bytes of Redis a recipient, with 10 and with 60 sends. */
interface Bytes {
  readonly with10: number;
  readonly with60: number;
}

interface Results extends Speed {
  readonly bytes: Each<Bytes>;
  readonly asks: Each<Asks>;
  readonly moving: Moving;
}

async function measure(
  redis: Redis,
  version: string,
  rivals: Rivals | undefined,
  options: SuiteOptions,
): Promise<Report> {
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
  const results = { ...speed, bytes, asks, moving: await measureMoving(redis, quick ? 200 : 10_000) };
  const versions = { node: process.versions.node, redis: version, ...rivals?.versions };
  const facts: Facts = { quick, seconds: (performance.now() - start) / 1_000, versions };
  const tables = [targets(results), costs(results), crowds(results)];
  return reportOf('limiter', facts, { tables, json: jsonOf(results) });
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

function targets({ ratios, bytes }: Results): Table {
  const than = (what: string, middle: Middle | undefined, target?: number): string[][] => {
    if (middle === undefined) return [];
    const { median, lowerQuartile, upperQuartile } = middle;
    const isMissed = target !== undefined && median < target;
    const reach = target === undefined ? '' : `>= ${target}${isMissed ? ' (missed)' : ''}`;
    return [[what, median.toFixed(2), `${lowerQuartile.toFixed(2)} to ${upperQuartile.toFixed(2)}`, reach]];
  };
  const atMost = (value: number, target: number, unit = ''): string =>
    `<= ${target}${unit}${value <= target ? '' : ' (missed)'}`;
  const megabytes = megabytesFor100k(bytes.ours);
  const rolling = bytes.rolling && bytes.ours.with10 / bytes.rolling.with10;
  return [
    ['two rules, admitted', 'measured', 'middle half', 'to reach'],
    ...than('x plain SET', ratios.set, 0.55),
    ...than('x rolling-rate-limiter', ratios.rolling, 3),
    ...than('x rate-limiter-flexible, union of two rules', ratios.flexibleUnion, 1),
    ...than('x rate-limiter-flexible, one rule', ratios.flexibleSingle),
    ...than('two windows x rate-limiter-flexible, union', ratios.windowsFlexibleUnion),
    ['100,000 recipients x 60 sends', `${megabytes.toFixed(1)} MB`, '', atMost(megabytes, 150, ' MB')],
    ...(rolling === undefined
      ? []
      : [['10 sends, bytes x rolling-rate-limiter', rolling.toFixed(2), '', atMost(rolling, 0.5)]]),
  ];
}

function costs({ cases }: Results): Table {
  return [
    ['128 asks in flight, one connection', 'asks/s', 'x SET', 'x ours', 'us in Redis'],
    ...cases.map(({ name, asksPerSecond, vsSet, vsOurs, microsInRedis }) => [
      name,
      wholeOf(asksPerSecond),
      vsSet.toFixed(2),
      vsOurs.toFixed(2),
      microsInRedis.toFixed(1),
    ]),
  ];
}

function crowds({ bytes, asks }: Results): Table {
  const row = (name: string, key: keyof Each<unknown>): string[][] => {
    const [size, count] = [bytes[key], asks[key]];
    if (size === undefined || count === undefined) return [];
    return [[name, ...[size.with10, size.with60, ...BLOCKED_JOBS.map((jobs) => count[jobs])].map(wholeOf)]];
  };
  return [
    ['', 'bytes, 10 sends', 'bytes, 60 sends', ...BLOCKED_JOBS.map((jobs) => `asks of ${jobs} blocked`)],
    ...row('pushpacer', 'ours'),
    ...row('rolling-rate-limiter', 'rolling'),
    ...row('rate-limiter-flexible', 'flexible'),
    ['at most', '', '', ...BLOCKED_JOBS.map((jobs) => wholeOf(2 * jobs + 10))],
  ];
}

/** The names that `--json` prints; null for what a quick run leaves out. */
function jsonOf({ ratios, bytes, asks, moving, cases }: Results): Report['json'] {
  const median = (middle: Middle | undefined): number | null => (middle ? round(middle.median, 3) : null);
  return {
    vsSet: median(ratios.set),
    vsRateLimiterFlexible: median(ratios.flexibleUnion),
    vsRateLimiterFlexibleSingle: median(ratios.flexibleSingle),
    twoWindowsVsRateLimiterFlexible: median(ratios.windowsFlexibleUnion),
    vsRollingRateLimiter: median(ratios.rolling),
    bytesVsRollingRateLimiter: bytes.rolling ? round(bytes.ours.with10 / bytes.rolling.with10, 3) : null,
    ...limiterJson('', bytes.ours, asks.ours),
    ...limiterJson('rollingRateLimiter', bytes.rolling, asks.rolling),
    ...limiterJson('rateLimiterFlexible', bytes.flexible, asks.flexible),
    movedWaiting: moving.waiting,
    movingLongestMs: round(moving.longestMs, 2),
    movingTogetherMs: round(moving.togetherMs, 1),
    movingSeconds: round(moving.seconds, 2),
    spread: Object.fromEntries(
      Object.entries<Middle>({ ...ratios }).map(([name, { lowerQuartile, upperQuartile }]) => [
        name,
        [round(lowerQuartile, 3), round(upperQuartile, 3)],
      ]),
    ),
    cases: cases.map(({ name, asksPerSecond, microsInRedis, ...ratiosOfCase }) => ({
      name,
      asksPerSecond: Math.round(asksPerSecond),
      ...rounded(ratiosOfCase, 3),
      microsInRedis: round(microsInRedis, 2),
    })),
  };
}

/** `asksFor50`, or `rollingRateLimiterAsksFor50` */
function limiterJson(owner: string, bytes: Bytes | undefined, asks: Asks | undefined): Report['json'] {
  const figures = {
    mbFor100kx60: bytes ? round(megabytesFor100k(bytes), 1) : null,
    bytesWith10: bytes ? Math.round(bytes.with10) : null,
    bytesWith60: bytes ? Math.round(bytes.with60) : null,
    ...Object.fromEntries(BLOCKED_JOBS.map((jobs) => [`asksFor${jobs}`, asks?.[jobs] ?? null])),
  };
  if (owner === '') return figures;
  const named = (name: string): string => `${owner}${name.charAt(0).toUpperCase()}${name.slice(1)}`;
  return Object.fromEntries(Object.entries(figures).map(([name, value]) => [named(name), value]));
}

/** 10^6 bytes, for 100,000 recipients with 60 sends each. */
function megabytesFor100k({ with60 }: Bytes): number {
  return (with60 * 100_000) / 1_000_000;
}
