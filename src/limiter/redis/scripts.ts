import { readFileSync } from 'node:fs';
import type { AdmitReply } from './wire.ts';

/** What the limiter needs of ioredis: both `Redis` and `Cluster` have it. */
export interface LimiterRedis {
  defineCommand(name: string, definition: { lua: string; numberOfKeys: number }): void;
  unlink(...keys: string[]): Promise<number>;
}

/** A number, or its text where the client has `stringNumbers`. */
type Numeric = number | string;

/** What `inspect.lua` answers. */
export type InspectReply = readonly [
  now: Numeric,
  policy: string | null,
  policyUntil: Numeric | null,
  blockedUntil: Numeric | null,
  blockReason: string | null,
  sent: readonly string[],
  reserved: readonly string[],
];

type Call<R> = (...keysAndArgs: (string | number)[]) => Promise<R>;

/** The scripts as commands of the client; those that work on scopes are there for each number of them. */
export interface Scripts {
  /** For one scope, and for two. */
  readonly admit: readonly [Call<AdmitReply>, Call<AdmitReply>];
  readonly release: readonly [Call<Numeric>, Call<Numeric>];
  readonly postpone: readonly [Call<Numeric>, Call<Numeric>];
  readonly inspect: Call<InspectReply>;
  readonly settings: Call<readonly [done: Numeric, now: Numeric]>;
}

/** Puts the scripts on the client. `scopes`: how many the recipient's settings concern, that is one and the categories. */
export function defineScripts(redis: LimiterRedis, scopes: number): Scripts {
  return {
    admit: [define(redis, 'admit', 3), define(redis, 'admit', 5)],
    release: [define(redis, 'release', 1), define(redis, 'release', 2)],
    postpone: [define(redis, 'postpone', 1), define(redis, 'postpone', 2)],
    inspect: define(redis, 'inspect', 1 + 2 * scopes),
    settings: define(redis, 'settings', 1 + 2 * scopes),
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

/** A script with what it includes; the path is relative to the module `from`. */
export function readScript(path: string, from: string | URL = import.meta.url): string {
  const file = new URL(path, from);
  const text = readFileSync(file, 'utf8');
  return text.replaceAll(/^-- include (\S+)$/gm, (_, included: string) => readScript(included, file));
}
