import { readFileSync } from 'node:fs';
import type { AdmitReply, InspectReply, Numeric, SettingsReply } from './replies.ts';

/** The part of ioredis that the limiter uses; `Redis` and `Cluster` both have it. */
export interface LimiterRedis {
  defineCommand(name: string, definition: { lua: string; numberOfKeys: number }): void;
  unlink(...keys: string[]): Promise<number>;
}

type Call<R> = (...keysAndArgs: (string | number)[]) => Promise<R>;

/** The scripts as commands of the client; some exist once for each number of scopes. */
export interface Scripts {
  /** For one scope, and for two. */
  readonly admit: readonly [Call<AdmitReply>, Call<AdmitReply>];
  /** For one scope, and for two. */
  readonly postpone: readonly [Call<Numeric>, Call<Numeric>];
  /** For one set, two and three of them. */
  readonly release: readonly [Call<Numeric>, Call<Numeric>, Call<Numeric>];
  readonly inspect: Call<InspectReply>;
  readonly move: Call<readonly Numeric[]>;
  readonly settings: Call<SettingsReply>;
}

/** Defines the scripts on the client. `scopes`: one, plus one for each category. */
export function defineScripts(redis: LimiterRedis, scopes: number): Scripts {
  return {
    admit: [define(redis, 'admit', 3), define(redis, 'admit', 6)],
    postpone: [define(redis, 'postpone', 1), define(redis, 'postpone', 2)],
    release: [define(redis, 'release', 1), define(redis, 'release', 2), define(redis, 'release', 3)],
    inspect: define(redis, 'inspect', 3 * scopes),
    move: define(redis, 'move', 3 * scopes),
    settings: define(redis, 'settings', 1),
  };
}

function define<R>(redis: LimiterRedis, script: string, numberOfKeys: number): Call<R> {
  const name = `pushpacer:${script}:${numberOfKeys}`;
  redis.defineCommand(name, { lua: readScript(`${script}.lua`), numberOfKeys });
  const commands = redis as unknown as Record<string, Call<R>>;
  const command = commands[name];
  if (command === undefined) throw new Error(`the client has no command ${name} after it was defined`);
  return command.bind(redis);
}

/** The text of a script with its included files; the path is relative to the module `from`. */
export function readScript(path: string, from: string | URL = import.meta.url): string {
  const file = new URL(path, from);
  const text = readFileSync(file, 'utf8');
  return text.replaceAll(/^-- include (\S+)$/gm, (_, included: string) => readScript(included, file));
}
