import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { withClient } from '../redis.ts';
import { reportOf, round, type Suite, type Table } from '../suite.ts';
import { measureReplicas, type Figures, type Layout } from './measure.ts';

/** The idle load of a hundred shard workers is that of 25 processes with 4 shards each. */
const LAYOUTS: readonly (readonly [workers: number, shards: number, isCluster: boolean])[] = [
  [1, 1, false],
  [1, 4, false],
  [6, 4, false],
  [1, 1, true],
  [1, 4, true],
  [6, 4, true],
];
const IDLE_LAYOUTS: typeof LAYOUTS = [
  [25, 4, false],
  [1, 64, false],
];

export const replicasSuite: Suite = {
  name: 'replicas',
  description: 'connections, idle load, and commands of a notification, by worker processes and shards',
  async run({ quick, say }) {
    const start = performance.now();
    const results: { readonly of: Layout; readonly figures: Figures }[] = [];
    const measure = async (layouts: typeof LAYOUTS, notifications: number): Promise<void> => {
      for (const [workers, shards, isCluster] of layouts) {
        const of = { workers, shards, isCluster };
        say(nameOf(of));
        results.push({ of, figures: await measureReplicas(of, { idleMs: quick ? 2_000 : 20_000, notifications }) });
      }
    };
    await measure(quick ? LAYOUTS.slice(0, 2) : LAYOUTS, quick ? 200 : 1_000);
    if (!quick) await measure(IDLE_LAYOUTS, 0);
    const facts = { quick, seconds: (performance.now() - start) / 1_000, versions: await versions() };
    return reportOf('replicas', facts, { tables: [tableOf(results)], json: { layouts: results.map(jsonOf) } });
  },
};

async function versions(): Promise<Readonly<Record<string, string>>> {
  await using server = await startEmbeddedRedis();
  const info = await withClient(server.url, (redis) => redis.info('server'));
  return { node: process.versions.node, redis: /^redis_version:(\S+)/m.exec(info)?.[1] ?? 'unknown' };
}

function nameOf({ workers, shards, isCluster }: Layout): string {
  const [processes, queues] = [
    workers === 1 ? '1 process' : `${workers} processes`,
    shards === 1 ? '1 shard' : `${shards} shards`,
  ];
  return `${processes}, ${queues}, ${isCluster ? 'cluster of 3 masters' : 'one Redis'}`;
}

interface Result {
  readonly of: Layout;
  readonly figures: Figures;
}

function tableOf(results: readonly Result[]): Table {
  return [
    [
      '',
      'connections of a process',
      'sent a second by a shard worker',
      'with those of scripts',
      'Redis busy',
      'commands of one',
    ],
    ...results.map(({ of, figures: { connections, idle, commandsEach } }) => [
      nameOf(of),
      connections.toFixed(1),
      idle.sentPerSecond.toFixed(2),
      idle.callsPerSecond.toFixed(1),
      `${(100 * idle.redisCpu).toFixed(1)} %`,
      Number.isNaN(commandsEach) ? '-' : commandsEach.toFixed(1),
    ]),
  ];
}

function jsonOf({ of, figures: { connections, idle, commandsEach } }: Result) {
  return {
    ...of,
    connections: round(connections, 2),
    idleSentPerSecond: round(idle.sentPerSecond, 3),
    idleCallsPerSecond: round(idle.callsPerSecond, 2),
    idleRedisCpu: round(idle.redisCpu, 4),
    commandsEach: Number.isNaN(commandsEach) ? null : round(commandsEach, 2),
  };
}
