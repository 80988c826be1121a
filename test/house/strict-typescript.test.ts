import { expect, it } from 'vitest';
import { snippetOf } from '../support/snippet.ts';
import { strictFaults } from '../support/strict-typescript.ts';

it.each(['enqueue', 'plain-bullmq'])('strict TypeScript takes the snippet %s of the README as it is', async (name) => {
  expect(strictFaults(await snippetOf('README.md', name))).toEqual([]);
});

it('strict TypeScript takes a field that may be undefined wherever one may be left out', () => {
  const code = `
    import { createProducer, type EnqueueInput, type NotificationInput } from 'pushpacer';
    const { QUEUE_PREFIX: prefix, REDIS_URL: redisUrl } = process.env;
    declare const badge: number | undefined;
    export const input: EnqueueInput = {
      recipientId: 'teacher-42',
      devices: [{ platform: 'fcm', token: 'a-registration-token' }],
      alert: { title: 'Room 12', body: undefined },
      ...{ badge, sound: undefined, priority: undefined, expiresAt: undefined, onThrottle: undefined },
    };
    export const withId: NotificationInput = { ...input, id: 'msg-8841' };
    createProducer();
    createProducer({ redisUrl, prefix, shards: undefined, timeoutMs: undefined, cluster: undefined, sentinel: undefined });
  `;
  expect(strictFaults(code)).toEqual([]);
});

it('strict TypeScript refuses what is wrong, with and without exact optional properties', () => {
  const code = "import { createProducer } from 'pushpacer';\ncreateProducer({ redisUrl: 7 });\n";
  expect(strictFaults(code)).toHaveLength(2);
  expect(strictFaults(code)[0]).toMatch(/^TS2322 /);
});
