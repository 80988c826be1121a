import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openApiDocument } from '../../../api/openapi.ts';
import { openApi } from '../../support/api.ts';
import { documentOf } from '../../support/openapi.ts';
import { startProcess } from '../../support/process.ts';
import { exampleFolder, runProgram } from '../../support/program.ts';
import { makeDevice } from '../../support/push.ts';
import { openReplicaBench } from '../../support/replica.ts';
import { snippetOf } from '../../support/snippet.ts';
import { strictFaultsIn } from '../../support/strict-typescript.ts';

const { paths, faultsOf, faultsIn } = documentOf(openApiDocument());
const OPERATIONS = Object.entries(paths).flatMap(([path, methods]) =>
  Object.keys(methods).map((name) => `${name} ${path}`),
);

interface Printed {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly type: string;
  readonly text: string;
}

/** What is wrong with an answer. Of a stream each line is one; all other JSON is one line. */
function faultsOfAnswer({ method, path, status, type, text }: Printed): readonly string[] {
  const [known = ''] = type.split(';');
  const bodies = known.endsWith('json')
    ? text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as unknown)
    : [text];
  return bodies.flatMap((body) => faultsOf(method, path, status, known, body));
}

it('a client in TypeScript that is generated from /openapi.json compiles under strict, and gets what its types say from every operation', async () => {
  const [good, bad] = [makeDevice().token, makeDevice().token];
  const bench = await openReplicaBench();
  bench.sandbox.setAnswers([{ platform: 'apns', token: bad, reason: 'BadDeviceToken' }]);
  await bench.startHere({ LIMIT_RULES: '1/1h', LIMIT_MIN_GAP: '0', OUTCOMES_MAX: '100', HISTORY_MAX: '100' });
  const api = await openApi({ QUEUE_PREFIX: bench.prefix });

  const folder = await exampleFolder();
  const generator = join('node_modules', 'openapi-typescript', 'bin', 'cli.js');
  const types = join(folder, 'openapi.ts');
  await runProgram(process.execPath, [generator, `${api.url}/openapi.json`, '--output', types], folder);
  const program = await readFile('test/slow/api/typed-client.mts.txt', 'utf8');
  const shown = await snippetOf('docs/http-api.md', 'typed-client', 'ts');
  expect(strictFaultsIn(folder, program, shown)).toEqual([]);

  await writeFile(join(folder, 'program.mts'), program);
  const env = { PUSHPACER_URL: api.url, PUSHPACER_TOKEN: api.secrets.all, GOOD: good, BAD: bad };
  const exit = await startProcess({ args: ['program.mts'], cwd: folder, env }).waitForExit(200_000);
  expect(exit).toMatchObject({ code: 0, stderr: '' });
  const printed = exit.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Printed & { readonly read?: Read });
  const read = printed.pop()?.read;
  expect(printed.flatMap(faultsOfAnswer)).toEqual([]);
  const succeeded = printed.filter(({ status }) => status < 300).map(({ method, path }) => `${method} ${path}`);
  expect([...new Set(succeeded)].toSorted()).toEqual(OPERATIONS.toSorted());
  expect(printed.filter(({ status }) => status >= 500)).toEqual([]);

  expect(read?.outcomes.flatMap((each) => faultsIn('Outcome', each))).toEqual([]);
  expect(read?.outcomes.map(({ id }) => id)).toEqual(expect.arrayContaining(['msg-1', 'dead-1']));
  const rule = expect.any(String) as string;
  expect(read).toMatchObject({
    ...{ isEstimated: true, ids: ['msg-2', 'msg-3', 'trip-1', 'trip-2', 'trip-3'], lines: 4, faults: ['id'] },
    ...{ outcome: 'delivered', devices: { 'apns#0': 'delivered' }, window: 3_600_000, unknown: 'not-found', moves: 2 },
    seen: {
      rules: [[1, 3_600_000]],
      reason: 'asked',
      note: 'call first',
      nights: 1,
      sent: 1,
      waiting: [
        [rule, 0],
        [rule, 1],
      ],
    },
    ...{ canceledOne: 1, result: 'canceled', canceled: expect.any(Number) as number, isBlocked: true },
    slots: ['admitted', 1, 'admitted', 0, 'reserved', 30_000, 'max-wait', '2/1h'],
    ...{ came: 'unknown', nothing: 0, refund: 'refunded', chosen: 'dead-1', runs: 2 },
    ended: [
      ['replay', 'dead-1', 1],
      ['discard', 'dead-2', 1],
    ],
    ...{
      concurrency: 50,
      completed: expect.any(Number) as number,
      byReason: { 'bad-token': expect.any(Number) as number },
    },
    ...{ policy: 0, phase: 'steady', counted: true, noToken: 'unauthorized' },
  });
}, 400_000);

interface Read {
  readonly outcomes: readonly { readonly id: string }[];
}
