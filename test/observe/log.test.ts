import { Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { fileURLToPath } from 'node:url';
import { createLog, createSparing } from '../../src/observe/log.ts';
import { runProgram } from '../support/program.ts';
import { testRedisUrl } from '../support/redis.ts';
import { makeDevice } from '../support/push.ts';

it('tells an error without the command that a client hung on it', async () => {
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => void lines.push(line) });
  const redis = new Redis(testRedisUrl());
  const error: unknown = await redis
    .call('XADD', 'test-log', 'no-id', 'token', 'a-secret-token')
    .catch((it: unknown) => it);
  redis.disconnect();
  expect(JSON.stringify(error)).toContain('a-secret-token'); // what pino would have told
  log.error({ err: error, recipientId: 'teacher-42' }, 'failed');
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    level: 'error',
    recipientId: 'teacher-42',
    err: { type: 'ReplyError', message: expect.stringContaining('ERR') as string },
  });
  expect(lines[0]).not.toContain('a-secret-token');
});

it('redacts what should not have been handed to it', () => {
  const lines: string[] = [];
  createLog('info', { write: (line) => void lines.push(line) }).info({ device: { token: 'a-secret-token' } }, 'x');
  expect(lines[0]).toContain('[redacted]');
});

it('redacts every field of a device but its platform', () => {
  const lines: string[] = [];
  const log = createLog('info', { write: (line) => void lines.push(line) });
  const device = makeDevice('webpush');
  log.info({ ...device, device, devices: [device] }, 'x');
  expect(lines[0]).toContain('webpush');
  for (const secret of [device.endpoint, device.keys.auth, device.keys.p256dh]) expect(lines[0]).not.toContain(secret);
});

it('writes every line to standard output, in order, also those just before the process ends', async () => {
  const source = fileURLToPath(new URL('../../src/observe/log.ts', import.meta.url));
  const program = `
    import { createLog } from ${JSON.stringify(source)};
    const log = createLog('info');
    for (let n = 0; n < 2_000; n++) log.info({ n }, 'a line');
    await new Promise((resolve) => setTimeout(resolve, 150)); // the batch is written by its timer
    for (let n = 2_000; n < 3_000; n++) log.info({ n }, 'a line');
    log.fatal({ n: 3_000 }, 'the last line');
    process.exit(0);
  `;
  const output = await runProgram(process.execPath, ['--input-type=module', '--eval', program], process.cwd());
  const numbers = output
    .trimEnd()
    .split('\n')
    .map((line) => (JSON.parse(line) as { n: number }).n);
  expect(numbers).toEqual(Array.from({ length: 3_001 }, (_, n) => n));
});

it('tells each trouble once in a while, and then how often it was met since', () => {
  let time = 0;
  const sparing = createSparing(1_000, () => time);
  expect(sparing('OOM')).toBe(0);
  for (let round = 0; round < 5; round++) expect(sparing('OOM')).toBeUndefined();
  expect(sparing('READONLY')).toBe(0);
  time = 999;
  expect(sparing('OOM')).toBeUndefined();
  time = 1_000;
  expect(sparing('OOM')).toBe(6);
  time = 5_000;
  expect([sparing('READONLY'), sparing('OOM')]).toEqual([0, 0]);
});
