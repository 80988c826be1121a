import { Redis } from 'ioredis';

/** What one command did over a batch, by `INFO commandstats`. */
interface CommandUse {
  readonly calls: number;
  /** Time inside Redis; a script's includes that of the commands it runs. */
  readonly micros: number;
}

/** By command, `evalsha` or `client|setinfo`. What scripts run is in it as well: Redis counts both alike. */
export type CommandStats = ReadonlyMap<string, CommandUse>;

export async function commandStats(redis: Redis): Promise<CommandStats> {
  const info = await redis.info('commandstats');
  const lines = info.matchAll(/^cmdstat_([^:]+):calls=(\d+),usec=(\d+)/gm);
  return new Map(
    [...lines].map(([, name = '', calls, micros]) => [name, { calls: Number(calls), micros: Number(micros) }]),
  );
}

/** What was used between two looks, the most used first. */
export function usedBetween(before: CommandStats, after: CommandStats): CommandStats {
  const used = [...after].map(([name, { calls, micros }]): [string, CommandUse] => {
    const earlier = before.get(name) ?? { calls: 0, micros: 0 };
    return [name, { calls: calls - earlier.calls, micros: micros - earlier.micros }];
  });
  return new Map(used.filter(([, { calls }]) => calls > 0).sort(([, a], [, b]) => b.calls - a.calls));
}

/**
 * Counts the commands that clients send, until `stop`. INFO has no such number: `total_commands_processed`, the calls of
 * `commandstats` and the `tot-cmds` of CLIENT LIST also count the commands inside scripts. MONITOR shows every command with its
 * source, which is `lua` for a script. It slows Redis down, so nothing is timed meanwhile.
 *
 * @param isOwn whether an address is that of the caller's own connection, whose commands are left out
 */
export async function countClientCommands(url: string, isOwn: (address: string) => boolean) {
  const redis = new Redis(url);
  const monitor = await redis.monitor();
  let count = 0;
  monitor.on('monitor', (_seconds: string, _command: string[], source: string) => {
    if (source !== 'lua' && !isOwn(source)) count += 1;
  });
  return {
    count: () => count,
    stop(): void {
      monitor.disconnect();
      redis.disconnect();
    },
  };
}
