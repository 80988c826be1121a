import { Redis } from 'ioredis';
import { expect, it } from 'vitest';
import { createLog } from '../../src/observe/log.ts';
import { testRedisUrl } from '../support/redis.ts';

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
