import { isObject, parseJson } from '../domain/json.ts';
import type { DeviceState, Outcome } from '../notification/outcome.ts';
import { originOf, readPasses, type Origin, type Passes } from '../notification/story.ts';
import { insist } from '../redis/deadline.ts';
import { defineScript, readScript, type ScriptRedis } from '../redis/scripts.ts';
import { homeOf, type Layout } from './shards/layout.ts';
import { historyKeys } from './names.ts';

/** What the history contains about a notification that has ended. */
export interface KeptStory extends Outcome, Passes, Origin {
  /** Epoch milliseconds. */
  readonly endedAt: number;
}

export interface HistoryOptions {
  /** A client that repeats a command if the connection broke before the answer, such as one of `connectWorker`. */
  readonly redis: ScriptRedis;
  readonly layout: () => Layout;
  /** How many stories are kept, in all shards together. */
  readonly max: number;
  readonly maxAgeMs: number;
  /** How long to try again while Redis cannot take a story, in milliseconds. */
  readonly insistMs: number;
  /** Called with a story that Redis did not take. */
  readonly onLost: (story: KeptStory, error: unknown) => void;
}

/** Keeps the stories of ended notifications, each in the shard of its recipient. */
export interface History {
  /**
   * Resolves when the story is stored, or given up. Never rejects: a notification does not wait for its story. Takes one
   * command.
   */
  write(story: KeptStory): Promise<void>;
}

/**
 * One write removes at most this many stories, so that it takes Redis only a short time. After `max` was lowered, each write
 * removes more stories than it adds, until the number is right.
 */
const REMOVED_AT_ONCE = 100;
const LUA = readScript('history.lua', import.meta.url);

export function createHistory({ redis, layout, max, maxAgeMs, insistMs, onLost }: HistoryOptions): History {
  const script = defineScript<number>(redis, 'pushpacer:history', LUA, 2);
  return {
    async write(story) {
      const { prefixes } = layout();
      const { stories, ends } = historyKeys(homeOf(story.recipientId ?? '', { prefixes }));
      const most = Math.ceil(max / prefixes.length);
      const text = JSON.stringify(story);
      try {
        await insist(() => script(stories, ends, story.id, text, most, maxAgeMs, REMOVED_AT_ONCE), insistMs);
      } catch (error) {
        onLost(story, error);
      }
    },
  };
}

/** The part of ioredis that reads the history. */
export interface HistoryRedis {
  hget(key: string, field: string): Promise<string | null>;
  exists(key: string): Promise<number>;
}

/** The story of a notification that has ended. Undefined if there is none, or it was removed. */
export async function findKeptStory(
  redis: HistoryRedis,
  prefixes: readonly string[],
  id: string,
): Promise<KeptStory | undefined> {
  const found = await Promise.all(prefixes.map((prefix) => redis.hget(historyKeys(prefix).stories, id)));
  return found.map((text) => (text === null ? undefined : readStory(text))).find((story) => story !== undefined);
}

/** Whether any story exists: then a worker had HISTORY_MAX set lately. Without one it may be set all the same. */
export async function hasHistory(redis: HistoryRedis, prefixes: readonly string[]): Promise<boolean> {
  const found = await Promise.all(prefixes.map((prefix) => redis.exists(historyKeys(prefix).ends)));
  return found.some((count) => count > 0);
}

/** The story in this text; undefined if a worker did not write it. */
function readStory(text: string): KeptStory | undefined {
  const story = parseJson(text);
  if (!isObject(story)) return undefined;
  const { id, outcome, enqueuedAt, endedAt, waitMs, devices } = story;
  const areTexts = typeof id === 'string' && typeof outcome === 'string';
  if (!areTexts || [enqueuedAt, endedAt, waitMs].some((value) => typeof value !== 'number')) return undefined;
  const states = (isObject(devices) ? devices : {}) as Readonly<Record<string, DeviceState>>;
  const origin = { enqueuedBy: undefined, firstEnqueuedAt: undefined, traceparent: undefined, tracestate: undefined };
  const own = { ...origin, ...originOf(story), ...readPasses(story) };
  return { ...story, devices: states, ...own } as KeptStory;
}
