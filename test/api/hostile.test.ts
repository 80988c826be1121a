import { readFileSync, writeFileSync } from 'node:fs';
import { Queue } from 'bullmq';
import { expect, it, onTestFinished } from 'vitest';
import { openApiDocument } from '../../api/openapi.ts';
import { SCOPES } from '../../api/tokens.ts';
import { QUEUE } from '../../src/queue/names.ts';
import { startApiProcess } from '../support/api-process.ts';
import { documentOf } from '../support/openapi.ts';
import { sendHead } from '../support/raw-request.ts';
import { connectRedis, queueEnv, testPrefix } from '../support/redis.ts';

const { paths } = documentOf(openApiDocument());

const KIB = 1_024;
const names = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`n${at}`, 1]));
const nested = (levels: number): string => '['.repeat(levels) + ']'.repeat(levels);

/** The names of a body's fields, as the document has them. */
function fieldsOf(schema: unknown): readonly string[] {
  const { properties = {}, $ref } = schema as { readonly properties?: object; readonly $ref?: string };
  return $ref === undefined ? Object.keys(properties) : ['devices', 'data', 'recipientId'];
}

/** Hostile bodies of about this many bytes, by what they are. `field`: a field that the route has. */
function hostile(bytes: number, field: string): Readonly<Record<string, string>> {
  const of = (value: string): string => `{${JSON.stringify(field)}:${value}}`;
  return {
    'unknown keys': JSON.stringify(names(Math.floor(bytes / 12))),
    'a long array of numbers': of(
      `[${Array(Math.floor(bytes / 2 - 20))
        .fill(1)
        .join()}]`,
    ),
    'a long array of objects': of(
      `[${Array(Math.floor(bytes / 3 - 20))
        .fill('{}')
        .join()}]`,
    ),
    'a long text': of(`"${'x'.repeat(bytes - 40)}"`),
    'a text of commas': of(`"${','.repeat(bytes - 40)}"`),
    'a text of escapes': of(`"${'\\u0007'.repeat(Math.floor(bytes / 6 - 10))}"`),
    nesting: of(nested(Math.floor(bytes / 2 - 20))),
    'no JSON': '['.repeat(bytes - 10),
    'beyond its size': of(`"${'x'.repeat(bytes)}"`),
  };
}

interface Route {
  readonly path: string;
  readonly bodies: Readonly<Record<string, string>>;
}

/** Each route that takes a body, with hostile bodies as large as it takes. */
const ROUTES: readonly Route[] = Object.entries(paths).flatMap(([template, { post }]) => {
  const schema = post?.requestBody?.content['application/json']?.schema;
  if (schema === undefined) return [];
  const path = template.replace('{id}', 'msg-1');
  if (template !== '/v1/notifications') {
    const [field = 'none'] = fieldsOf(schema);
    return ['', ...(/block|limit|quiet|admit|replay|discard/.test(path) ? ['?preview=true'] : [])].map((query) => ({
      ...{ path: `${path}${query}`, bodies: hostile(64 * KIB, field) },
    }));
  }
  const one = { path, bodies: { ...hostile(400_000, 'devices'), ...hostile(400_000, 'data') } };
  const many = Object.entries(hostile(900, 'devices')).filter(([name]) => !/JSON|size/.test(name));
  const arrays = many.map(([name, body]) => [`1,000 of ${name}`, `[${Array(1_000).fill(body).join()}]`] as const);
  return [
    one,
    { path, bodies: { ...Object.fromEntries(arrays), 'five million values': `[${Array(5e6).fill('[]').join()}]` } },
  ];
});

const MOST = { cpuMs: 150, aliveMs: 250, heldBytes: 50 * KIB * KIB };
const MOST_ANSWER = 64_000;
type Cost = Readonly<Record<keyof typeof MOST, number>>;
const COSTS = Object.keys(MOST) as (keyof typeof MOST)[];

/** The API in a process of its own, so that what it takes is not what its client takes. */
async function openApart() {
  const prefix = testPrefix();
  const { process, url, secret } = await startApiProcess(queueEnv(prefix), SCOPES);
  const queue = new Queue(QUEUE, { connection: connectRedis(), prefix });
  onTestFinished(() => queue.close());
  const authorization = `Bearer ${secret}`;
  const read = (file: string): string => readFileSync(`/proc/${process.pid}/${file}`, 'utf8');
  const cpuMs = (): number => {
    const [user, system] = read('stat').split(') ')[1]?.split(' ').slice(11, 13) ?? [];
    return 10 * (Number(user) + Number(system));
  };
  const memory = (name: 'VmRSS' | 'VmHWM'): number =>
    KIB * Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(read('status'))?.[1]);

  /** Asks whether the API is alive, again and again until `work` has ended: the longest that it took to answer. */
  async function slowestAlive(work: Promise<unknown>): Promise<number> {
    let [slowest, isOver] = [0, false];
    const end = (): void => void (isOver = true);
    work.then(end, end);
    while (!isOver) {
      const from = performance.now();
      await (await fetch(`${url}/healthz`)).text();
      slowest = Math.max(slowest, performance.now() - from);
    }
    return slowest;
  }

  /**
   * The answer, and what it cost the API: of each time the least of three tries, as another program may take the machine
   * meanwhile; of memory the most that it had more. One try is enough if it is within `most`.
   */
  async function costOf<T>(ask: () => Promise<T>, most: Cost = MOST): Promise<readonly [cost: Cost, answer: T]> {
    let least: Cost = { cpuMs: Infinity, aliveMs: Infinity, heldBytes: 0 };
    writeFileSync(`/proc/${process.pid}/clear_refs`, '5'); // the most memory that it had is from now on
    const held = memory('VmRSS');
    for (let time = 1; ; time++) {
      const before = cpuMs();
      const answering = ask();
      const aliveMs = await slowestAlive(answering);
      const answer = await answering;
      least = {
        cpuMs: Math.min(least.cpuMs, cpuMs() - before),
        aliveMs: Math.min(least.aliveMs, aliveMs),
        heldBytes: memory('VmHWM') - held,
      };
      if (time === 3 || COSTS.every((name) => least[name] <= most[name])) return [least, answer];
    }
  }

  const post = async (path: string, body: string) => {
    const headers = { authorization, 'content-type': 'application/json' };
    const answer = await fetch(`${url}${path}`, { method: 'POST', headers, body });
    return { status: answer.status, bytes: (await answer.arrayBuffer()).byteLength };
  };

  /** As many bytes as that, each a piece of its own. */
  const postSingly = async (path: string, type: string, bytes: number) => {
    const headers = { authorization, 'content-type': type, 'transfer-encoding': 'chunked' };
    const request = await sendHead(url, `POST ${path}`, headers);
    request.write(`${'1\r\nx\r\n'.repeat(bytes)}0\r\n\r\n`);
    return request.answer();
  };
  return { queue, costOf, post, postSingly };
}

/** What may be taken on this machine now, on which other programs may run too: one alone takes 100 ms for this. */
function mostNow(): Cost {
  const text = JSON.stringify(names(40_000));
  const [from, before] = [performance.now(), process.threadCpuUsage()];
  for (let time = 0; time < 10; time++) JSON.parse(text);
  const { user, system } = process.threadCpuUsage(before);
  const slowness = (tookMs: number): number => Math.max(1, tookMs / 100);
  return {
    ...MOST,
    cpuMs: MOST.cpuMs * slowness((user + system) / 1_000),
    aliveMs: MOST.aliveMs * slowness(performance.now() - from),
  };
}

it('no hostile body of any route takes long, keeps others waiting, holds much, or gets a long answer', async () => {
  const { queue, costOf, post } = await openApart();
  const faults: string[] = [];
  const statuses = new Set<number>();
  let sent = 0;
  for (const { path, bodies } of ROUTES) {
    for (const [name, body] of Object.entries(bodies)) {
      const [cost, { status, bytes }] = await costOf(() => post(path, body));
      statuses.add(status);
      sent++;
      const what = `${path}: ${name}: ${status}`;
      // 401, 403, 404 and 415 would mean that it was refused before it was looked at.
      if (![400, 413, 422].includes(status)) faults.push(what);
      if (bytes > MOST_ANSWER) faults.push(`${what}: an answer of ${bytes} bytes`);
      const beyond = COSTS.filter((figure) => cost[figure] > MOST[figure]);
      const most = beyond.length === 0 ? MOST : mostNow();
      for (const figure of beyond) {
        if (cost[figure] > most[figure]) faults.push(`${what}: ${figure} ${Math.round(cost[figure])}`);
      }
    }
  }
  expect(faults).toEqual([]);
  expect([...statuses].toSorted()).toEqual([400, 413, 422]);
  expect(sent).toBeGreaterThan(200);
  expect(await queue.getJobCountByTypes()).toBe(0);
});

it('a body by single bytes takes no longer than its pieces', async () => {
  const { costOf, postSingly } = await openApart();
  for (const [path, type, expected] of [
    ['/v1/recipients/a/block', 'application/json', 400],
    ['/v1/notifications', 'application/json', 400],
    ['/v1/notifications', 'application/x-ndjson', 200],
  ] as const) {
    const few = { cpuMs: 0, aliveMs: 0, heldBytes: 0 }; // the first tries are slower
    const [{ cpuMs: small }] = await costOf(() => postSingly(path, type, 8_000), few);
    const most = { ...MOST, cpuMs: MOST.cpuMs + 16 * small };
    const [{ cpuMs }, { status }] = await costOf(() => postSingly(path, type, 64_000), most);
    expect([path, status]).toEqual([path, expected]);
    expect(cpuMs).toBeLessThan(most.cpuMs);
  }
});
