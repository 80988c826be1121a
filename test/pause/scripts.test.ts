import { readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { LEASE_MS } from '../../src/pause/provider-pause.ts';
import { SLACK_MS } from '../../src/pause/rules.ts';
import { createStore, type PauseRedis } from '../../src/pause/store.ts';

const source = (name: string): string =>
  readFileSync(new URL(`../../src/pause/${name}`, import.meta.url), 'utf8').replaceAll(/--.*$/gm, '');

/** How many arguments each verb of pause.lua names. */
function verbs(): Record<string, number> {
  const named = [...source('pause.lua').matchAll(/^function verbs\.(\w+)\(([^)]*)\)/gm)];
  return Object.fromEntries(named.map(([, verb = '', names = '']) => [verb, names.split(',').length]));
}

it('every verb of the script is given as many arguments as it names, and no other verb is asked for', async () => {
  const given: Record<string, number> = {};
  const redis: PauseRedis = {
    defineCommand(name, { numberOfKeys }) {
      Object.assign(this, {
        [name]: (...all: string[]) => {
          const [verb = '', , ...args] = all.slice(numberOfKeys);
          given[verb] = Math.max(given[verb] ?? 0, args.length);
          return Promise.resolve([0, 'kept']);
        },
      });
    },
  };
  const store = createStore(redis, '{p}');
  await store.open('apns', { trouble: 'auth', code: 'c', forMs: 1, mayExtend: false, step: 0, agoMs: 0 });
  await store.claim('apns', 'id', LEASE_MS);
  await store.settle('apns', { id: 'id', version: 1 });
  await store.settle('apns', { id: 'id', version: 1 }, { trouble: 'auth', code: 'c', forMs: 1, step: 1 });
  await store.release('apns', 'id');
  expect(given).toEqual(verbs());
  expect(Object.keys(given)).toHaveLength(4);
});

it('the script and this process count slack alike', () => {
  expect(/SLACK_MS = (\d+)/.exec(source('pause.lua'))?.[1]).toBe(String(SLACK_MS));
});
