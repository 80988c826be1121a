import { defineScript, readScript, type Call, type ScriptRedis } from '../../redis/scripts.ts';
import type { AdmitReply, InspectReply, Numeric, SettingsReply } from './replies.ts';

/** The part of ioredis that the limiter uses; `Redis` and `Cluster` both have it. */
export interface LimiterRedis extends ScriptRedis {
  /** Removes keys. */
  unlink(...keys: string[]): Promise<number>;
}

/** The scripts as commands of the client; some exist once for each number of scopes. */
export interface Scripts {
  /** For one scope, and for two. */
  readonly admit: readonly [Call<AdmitReply>, Call<AdmitReply>];
  /** For one set, two and three of them. */
  readonly release: readonly [Call<Numeric>, Call<Numeric>, Call<Numeric>];
  readonly inspect: Call<InspectReply>;
  readonly move: Call<readonly Numeric[]>;
  readonly settings: Call<SettingsReply>;
}

/** Defines the scripts on the client. `scopes`: one, plus one for each category. */
export function defineScripts(redis: LimiterRedis, scopes: number): Scripts {
  return {
    admit: [define(redis, 'admit', 4), define(redis, 'admit', 7)],
    release: [define(redis, 'release', 1), define(redis, 'release', 2), define(redis, 'release', 3)],
    inspect: define(redis, 'inspect', 3 * scopes),
    move: define(redis, 'move', 3 * scopes),
    settings: define(redis, 'settings', 1),
  };
}

function define<R>(redis: LimiterRedis, script: string, numberOfKeys: number): Call<R> {
  const lua = readScript(`${script}.lua`, import.meta.url);
  return defineScript(redis, `pushpacer:${script}:${numberOfKeys}`, lua, numberOfKeys);
}
