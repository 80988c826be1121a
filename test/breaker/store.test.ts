import { readFileSync } from 'node:fs';
import { beforeEach, describe, expect, it } from 'vitest';
import type { State } from '../../src/breaker/state.ts';
import { createStore, type Store } from '../../src/breaker/store.ts';
import { connectRedis, testPrefix } from '../support/redis.ts';

const first: State = {
  trouble: 'quota',
  code: 'QUOTA_EXCEEDED',
  since: 1_000,
  until: 61_000,
  step: 0,
  failedId: null,
  change: 'first',
};
const second: State = { ...first, trouble: 'auth', step: 1, failedId: 'msg-1', change: 'second' };
/** What others read of it: how long it stays open is told by the marker alone. */
const shown = (state: State) => ({ ...state, until: undefined });

describe('a change of the breaker in Redis', () => {
  let store: Store;
  beforeEach(() => {
    store = createStore(connectRedis(), testPrefix(), 'apns');
  });

  /** A breaker that is half open, with a trial of this id under way. */
  async function claimed(id: string): Promise<void> {
    await store.put('', first, 0);
    expect(await store.claim(id, 20_000)).toMatchObject({ marker: id });
  }

  it('by a finding is made only where the state is still what the finder saw', async () => {
    expect(await store.read()).toMatchObject({ marker: null, text: '', state: undefined });
    const { text, marker, forMs, state } = await store.put('', first, 60_000);
    expect({ marker, state }).toEqual({ marker: 'open', state: JSON.parse(JSON.stringify(shown(first))) as unknown });
    expect(forMs).toBeGreaterThan(50_000);
    expect(await store.put('', second, 90_000)).toMatchObject({ text });
    expect((await store.read()).forMs).toBeLessThanOrEqual(60_000);
    const changed = await store.put(text, second, 90_000);
    expect(changed.state).toMatchObject({ trouble: 'auth', step: 1, failedId: 'msg-1', change: 'second' });
    expect(changed.forMs).toBeGreaterThan(80_000);
  });

  it('by a finding that says no time leaves the trial under way', async () => {
    await claimed('trial');
    const { text } = await store.read();
    expect(await store.put(text, second, 0)).toMatchObject({ marker: 'trial', state: { trouble: 'auth' } });
  });

  it('by a claim is made only where the breaker is half open', async () => {
    expect(await store.claim('trial', 20_000)).toMatchObject({ marker: null, state: undefined });
    await store.put('', first, 60_000);
    expect(await store.claim('trial', 20_000)).toMatchObject({ marker: 'open' });
    expect((await store.read()).forMs).toBeGreaterThan(50_000);
  });

  it("by a trial's end is made only while the trial is under way", async () => {
    await claimed('trial');
    expect(await store.claim('another', 20_000)).toMatchObject({ marker: 'trial' });
    for (const change of [store.fail('another', second, 5_000), store.succeed('another'), store.release('another')]) {
      expect(await change).toMatchObject({ marker: 'trial', state: { change: 'first' } });
    }
    expect(await store.release('trial')).toMatchObject({ marker: null, state: { change: 'first' } });
    expect(await store.succeed('trial')).toMatchObject({ state: { change: 'first' } });
    expect(await store.claim('another', 20_000)).toMatchObject({ marker: 'another' });
    expect(await store.fail('another', second, 5_000)).toMatchObject({ marker: 'open', state: { change: 'second' } });
    expect(await store.succeed('another')).toMatchObject({ marker: 'open', state: { change: 'second' } });
  });

  it('by a trial that succeeded closes it', async () => {
    await claimed('trial');
    expect(await store.succeed('trial')).toMatchObject({ marker: null, text: '', state: undefined });
  });
});

it('asks a Redis that does not answer no more, until it does', async () => {
  const calls: PromiseWithResolvers<unknown>[] = [];
  const redis = {
    eval: () => {
      const call = Promise.withResolvers<unknown>();
      calls.push(call);
      return call.promise;
    },
  };
  const store = createStore(redis, 'prefix', 'apns');
  await expect(store.read()).rejects.toThrow('Redis gave no answer within 1000 ms');
  await expect(store.read()).rejects.toThrow('Redis does not answer');
  expect(calls).toHaveLength(1);
  calls[0]?.reject(new Error('connection lost'));
  await new Promise(setImmediate);
  const asked = store.read();
  calls[1]?.resolve([null, -2, null]);
  expect(await asked).toMatchObject({ state: undefined });
});

it('every verb of the script has its call, and no call asks for another verb', async () => {
  const script = readFileSync('src/breaker/breaker.lua', 'utf8');
  const verbs = [...script.matchAll(/^function verbs\.(\w+)\(([^)]*)\)/gm)].map(([, verb = '', names = '']) => ({
    verb,
    count: names.split(',').filter((name) => name !== '').length,
  }));
  const asked: (string | number)[][] = [];
  const redis = {
    eval: (_: string, keys: number, ...rest: (string | number)[]) => {
      asked.push(rest.slice(keys));
      return Promise.resolve([null, -2, null]);
    },
  };
  const store = createStore(redis, 'prefix', 'apns');
  await store.read();
  await store.put('', first, 1);
  await store.claim('id', 1);
  await store.fail('id', first, 1);
  await store.succeed('id');
  await store.release('id');
  expect(asked.map(([verb, ...args]) => ({ verb, count: args.length }))).toEqual(verbs);
});
