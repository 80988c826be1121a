import { fork, type ChildProcess } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { request } from 'node:http';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { addToken } from '../../api/tokens.ts';
import type { NotificationInput } from '../../src/notification/notification.ts';
import { createRedisLimiter } from '../../src/limiter/redis/redis-limiter.ts';
import { createProducer } from '../../src/producer/producer.ts';
import { PREFIX, withClient, withSurroundings, type Surroundings } from '../redis.ts';
import { middleOf, reportOf, round, rounded, wholeOf, type Middle, type Suite, type Table } from '../suite.ts';

/**
 * How fast the HTTP API takes notifications, beside a producer in this process, how much memory a long stream takes, and how
 * many slots it gives, beside a limiter in this process.
 */
export const apiSuite: Suite = {
  name: 'api',
  description: 'notifications and slots over HTTP, beside producer and limiter in process',
  defaultRuns: (quick) => (quick ? 2 : 7),
  rows: ['speed', 'memory', 'admits'],
  async run({ runs, quick, row, say }) {
    const start = performance.now();
    return withSurroundings(say, async (surroundings, redis) => {
      const api = await startApi(surroundings);
      try {
        const isWanted = (name: string): boolean => row === undefined || row === name;
        const speed = isWanted('speed') ? await measureSpeed(api, surroundings, { runs, quick, say }) : undefined;
        const memory = isWanted('memory') ? await measureMemory(api, { quick, say }) : undefined;
        const admits = isWanted('admits') ? await measureAdmits(api, surroundings, { runs, quick, say }) : undefined;
        const seconds = (performance.now() - start) / 1_000;
        const facts = { quick, seconds, versions: { node: process.versions.node, redis } };
        const tables = [
          ...(speed ? [tableOf('notifications', NAMES, speed, 'producer')] : []),
          ...(memory ? [memoryTable(memory)] : []),
          ...(admits ? [tableOf('slots', ADMIT_NAMES, admits, 'limiter')] : []),
        ];
        const json = {
          ...{ runs, memory, speed: speed && jsonOf(speed, 'producer'), admits: admits && jsonOf(admits, 'limiter') },
        };
        return reportOf('api', facts, { tables, json });
      } finally {
        api.child.kill('SIGTERM');
      }
    });
  },
};

interface ApiProcess {
  readonly url: URL;
  readonly secret: string;
  readonly child: ChildProcess;
}

async function startApi({ redisUrl, dir }: Surroundings): Promise<ApiProcess> {
  const tokens = join(dir, 'tokens.json');
  const secret = await addToken(tokens, { name: 'bench', scopes: ['send', 'limit'] });
  const env = { ...process.env, REDIS_URL: redisUrl, QUEUE_PREFIX: PREFIX, API_PORT: '0', API_TOKENS_FILE: tokens };
  const child = fork('api/api.ts', { env, silent: true });
  if (child.stdout === null) throw new Error('expected an output');
  for await (const line of createInterface({ input: child.stdout })) {
    const { msg, url } = JSON.parse(line) as { readonly msg: string; readonly url: string };
    if (msg === 'the API is ready') return { url: new URL(url), secret, child };
  }
  throw new Error('the API ended before it was ready');
}

let made = 0;
function makeInput(body = 'Field trip forms are due'): NotificationInput {
  made += 1;
  return {
    id: `api-${made}`,
    recipientId: `teacher-${made % 10_000}`,
    devices: [{ platform: 'fcm', token: `bench-token-${made}-0123456789abcdefghijklmnopqrstuvwxyz` }],
    alert: { title: 'Room 12', body },
  };
}
const makeInputs = (count: number) => Array.from({ length: count }, () => makeInput());

const BATCH = 100;
/** Requests under way at once. */
const LANES = { batches: 4, single: 16 };

/** One way of adding: notifications a second, and the 99th percentile of a call in milliseconds. */
interface Rate {
  readonly perSecond: number;
  readonly p99Ms: number;
}
const WAYS = ['producer', 'batches', 'single', 'stream'] as const;
type Speed = Readonly<Record<(typeof WAYS)[number], readonly Rate[]>>;

async function measureSpeed(
  api: ApiProcess,
  { redisUrl }: Surroundings,
  { runs, quick, say }: { runs: number; quick: boolean; say: (line: string) => void },
): Promise<Speed> {
  const count = quick ? 1_000 : 10_000;
  const producer = createProducer({ redisUrl, prefix: PREFIX });
  const speed = { producer: [] as Rate[], batches: [] as Rate[], single: [] as Rate[], stream: [] as Rate[] };
  try {
    for (let run = 0; run <= runs; run++) {
      const batches = (): NotificationInput[][] => Array.from({ length: count / BATCH }, () => makeInputs(BATCH));
      const rates = {
        producer: await rateOf(count, LANES.batches, batches(), async (batch) => {
          await producer.enqueueMany(batch);
        }),
        batches: await rateOf(count, LANES.batches, batches(), (batch) => post(api, JSON.stringify(batch))),
        single: await rateOf(count / 5, LANES.single, makeInputs(count / 5), (one) => post(api, JSON.stringify(one))),
        stream: await rateOf(count, 1, [makeInputs(count)], (all) =>
          post(api, all.map((one) => JSON.stringify(one)).join('\n'), 200),
        ),
      };
      await withClient(redisUrl, (redis) => redis.flushdb());
      if (run === 0) continue; // the processes are cold
      for (const way of WAYS) speed[way].push(rates[way]);
      say(`run ${run} of ${runs}: ${WAYS.map((way) => `${way} ${wholeOf(rates[way].perSecond)}/s`).join(', ')}`);
    }
  } finally {
    await producer.close();
  }
  return speed;
}

/** Works through the list in so many lanes. */
async function rateOf<T>(count: number, lanes: number, list: T[], work: (item: T) => Promise<void>): Promise<Rate> {
  const left = [...list];
  const times: number[] = [];
  const start = performance.now();
  const lane = async (): Promise<void> => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) {
      const began = performance.now();
      await work(item);
      times.push(performance.now() - began);
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  const seconds = (performance.now() - start) / 1_000;
  const p99Ms = times.toSorted((a, b) => a - b)[Math.ceil(times.length * 0.99) - 1] ?? NaN;
  return { perSecond: count / seconds, p99Ms };
}

/** One slot for each of many recipients, one after the other in each lane: over HTTP, and from a limiter in this process. */
const ADMIT_WAYS = ['limiter', 'http'] as const;
type Admits = Readonly<Record<(typeof ADMIT_WAYS)[number], readonly Rate[]>>;

async function measureAdmits(
  api: ApiProcess,
  { redisUrl }: Surroundings,
  { runs, quick, say }: { runs: number; quick: boolean; say: (line: string) => void },
): Promise<Admits> {
  const count = quick ? 400 : 4_000;
  const admits = { limiter: [] as Rate[], http: [] as Rate[] };
  await withClient(redisUrl, async (redis) => {
    const policy = { rules: [{ max: 10, perMs: 60_000 }], minGapMs: 3_000 }; // as the API without LIMIT_RULES
    const limiter = createRedisLimiter({ redis, policy, prefix: PREFIX });
    for (let run = 0; run <= runs; run++) {
      const recipients = Array.from({ length: count }, (_, index) => `teacher-${run}-${index}`);
      const rates = {
        limiter: await rateOf(count, LANES.single, recipients, async (recipientId) => {
          const ask = { recipientId: `${recipientId}-here`, id: 'email-1', expiresInMs: 0, everyRule: true };
          const { kind } = await limiter.admit(ask);
          if (kind !== 'admitted') throw new Error(`expected a slot, found ${kind}`);
        }),
        http: await rateOf(count, LANES.single, recipients, (recipientId) =>
          post(api, '{"id":"email-1"}', 200, `/v1/recipients/${recipientId}/admit`),
        ),
      };
      await redis.flushdb();
      if (run === 0) continue; // the processes are cold
      for (const way of ADMIT_WAYS) admits[way].push(rates[way]);
      say(`run ${run} of ${runs}: ${ADMIT_WAYS.map((way) => `${way} ${wholeOf(rates[way].perSecond)}/s`).join(', ')}`);
    }
  });
  return admits;
}

async function post(api: ApiProcess, body: string, expected = 202, path = '/v1/notifications'): Promise<void> {
  const { url, secret } = api;
  const isStream = path === '/v1/notifications' && expected === 200;
  const type = isStream ? 'application/x-ndjson' : 'application/json';
  const headers = { authorization: `Bearer ${secret}`, 'content-type': type };
  const answer = await fetch(new URL(path, url), { method: 'POST', headers, body });
  const text = await answer.text();
  if (answer.status !== expected) throw new Error(`expected ${expected}, found ${answer.status}: ${text}`);
}

/** Megabytes that the API's process has more at the most than before. */
interface MemoryRow {
  readonly what: string;
  readonly streamMb: number;
  readonly moreMb: number;
}

/** A stream of notifications with much in them, a thousand of them again and again, so that Redis keeps few. */
async function measureMemory(api: ApiProcess, { quick, say }: { quick: boolean; say: (line: string) => void }) {
  const rows: MemoryRow[] = [];
  for (const [what, streamMb, pauseMs] of [
    ['a stream, answers read at once', quick ? 20 : 2_048, 0],
    ['a stream, and a reader that takes 16 kB in 50 ms', quick ? 5 : 50, 50],
  ] as const) {
    const watch = await watchMemory(api.child.pid ?? 0);
    await stream(api, streamMb, pauseMs);
    rows.push({ what, streamMb, moreMb: round(await watch.stop(), 0) });
    say(`${what}: ${rows.at(-1)?.moreMb} MB more`);
  }
  return rows;
}

async function stream({ url, secret }: ApiProcess, megabytes: number, pauseMs: number): Promise<void> {
  const lines = Array.from({ length: 1_000 }, () => `${JSON.stringify(makeInput('x'.repeat(3_000)))}\n`);
  const block = lines.slice(0, 100).join('');
  const headers = { authorization: `Bearer ${secret}`, 'content-type': 'application/x-ndjson' };
  const asked = request(new URL('/v1/notifications', url), { method: 'POST', headers });
  const answered = new Promise<void>((resolve, reject) => {
    asked.once('error', reject).once('response', (response) => {
      void (async () => {
        for await (const chunk of response) if (pauseMs > 0 && (chunk as Buffer).length > 0) await sleep(pauseMs);
        resolve();
      })().catch(reject);
    });
  });
  for (let sent = 0; sent < megabytes * 1_000_000; sent += block.length) {
    if (!asked.write(block)) await new Promise((resolve) => asked.once('drain', resolve));
  }
  asked.end();
  await answered;
}

async function watchMemory(pid: number) {
  const now = async (): Promise<number> => {
    const [, kilobytes = '0'] = /VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${pid}/status`, 'utf8')) ?? [];
    return Number(kilobytes) / 1_000;
  };
  const before = await now();
  let most = before;
  const timer = setInterval(() => void now().then((each) => (most = Math.max(most, each))), 100);
  return {
    stop: async () => {
      clearInterval(timer);
      return Math.max(most, await now()) - before;
    },
  };
}

const NAMES = {
  producer: `enqueueMany in process, ${BATCH} at once`,
  batches: `arrays of ${BATCH}`,
  single: 'one by one',
  stream: 'a stream of NDJSON',
};
const ADMIT_NAMES = { limiter: 'the limiter in process', http: 'over HTTP' };

/** The median over the runs, and its ratio to that of `base` in the same run. */
function figuresOf(
  rates: readonly Rate[],
  base: readonly Rate[],
): { readonly perSecond: Middle; readonly ratio: Middle; readonly p99Ms: Middle } {
  const ratios = rates.map(({ perSecond }, run) => perSecond / (base[run]?.perSecond ?? NaN));
  return {
    perSecond: middleOf(rates.map(({ perSecond }) => perSecond)),
    ratio: middleOf(ratios),
    p99Ms: middleOf(rates.map(({ p99Ms }) => p99Ms)),
  };
}

function tableOf<Way extends string>(
  what: string,
  names: Readonly<Record<Way, string>>,
  rates: Readonly<Record<Way, readonly Rate[]>>,
  base: Way,
): Table {
  return [
    [what, 'a second', 'x in process', 'p99 of a call, ms'],
    ...(Object.keys(names) as Way[]).map((way) => {
      const { perSecond, ratio, p99Ms } = figuresOf(rates[way], rates[base]);
      return [names[way], wholeOf(perSecond.median), ratio.median.toFixed(2), p99Ms.median.toFixed(1)];
    }),
  ];
}

function memoryTable(rows: readonly MemoryRow[]): Table {
  return [
    ['memory of the API', 'MB sent', 'MB more'],
    ...rows.map(({ what, streamMb, moreMb }) => [what, wholeOf(streamMb), String(moreMb)]),
  ];
}

function jsonOf<Way extends string>(
  rates: Readonly<Record<Way, readonly Rate[]>>,
  base: Way,
): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    (Object.keys(rates) as Way[]).map((way) => {
      const { perSecond, ratio, p99Ms } = figuresOf(rates[way], rates[base]);
      return [way, { perSecond: rounded(perSecond, 0), ratio: rounded(ratio, 3), p99Ms: rounded(p99Ms, 1) }];
    }),
  );
}
