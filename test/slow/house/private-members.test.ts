import { globSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';

// That no published code reaches past the types of a package is a rule of eslint.config.js; what it cannot see is here.

/** Scripts that write keys of BullMQ directly. A new version of BullMQ may lay them out in another way. */
const WRITE_BULLMQ_KEYS = [
  'src/dead-letters/{bury,discard,forget,replay,take-out}.lua',
  'src/queue/{note-why,save-progress}.lua',
  'src/queue/shards/{marks,reshard-drop,reshard-put,reshard-remove,reshard-take}.lua',
];
/** They write only keys of this project. */
const WRITE_OWN_KEYS = ['src/queue/{cancellation-index,history,workers}.lua', 'src/queue/shards/layout.lua'];

/** Texts of errors, and fields of them, that a package does not promise to keep; and the one file that knows them. */
const TEXTS: readonly (readonly [file: string, texts: RegExp])[] = [
  ['src/queue/bullmq-internals.ts', /Missing lock|Lock mismatch|more than allowable limit/],
  [
    'src/redis/diagnosis.ts',
    /Command (?:timed out|aborted due)|Stream isn't writeable|Unknown RESP type|MaxRetriesPerRequestError|lastNodeError|previousErrors/,
  ],
];

test('the scripts of the queue that write keys of BullMQ are those that are listed', async () => {
  const scripts = globSync('src/{queue,dead-letters}/**/*.lua');
  const writes = /'(?:HSET|HDEL|DEL|EXPIRE|LPUSH|LREM|ZADD|ZREM|XADD|INCR)'/;
  const writing: string[] = [];
  for (const file of scripts) if (writes.test(await readFile(file, 'utf8'))) writing.push(file);
  expect(writing.toSorted()).toEqual(globSync([...WRITE_BULLMQ_KEYS, ...WRITE_OWN_KEYS]).toSorted());
  expect(writing).toHaveLength(16);
});

test('each text of a package’s errors is known to one file', async () => {
  const files = globSync('{src,workers,scripts}/**/*.ts');
  expect(files.length).toBeGreaterThan(100);
  for (const [file, texts] of TEXTS) {
    const knowing: string[] = [];
    for (const each of files) if (texts.test(await readFile(each, 'utf8'))) knowing.push(each);
    expect(knowing).toEqual([file]);
  }
});
