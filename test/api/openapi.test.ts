import { readFile } from 'node:fs/promises';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { openApiDocument } from '../../api/openapi.ts';
import { PROBLEM_CODES } from '../../api/problems.ts';
import { API_VARIABLES } from '../../src/config/variables.ts';
import { openApi, type ApiBench } from '../support/api.ts';
import { documentOf, type Json } from '../support/openapi.ts';
import { makeDevice, makeNotification } from '../support/push.ts';

const { paths, validatorOf, faultsOf } = documentOf(openApiDocument());
const notificationFits = validatorOf({ $ref: '#/components/schemas/Notification' });

async function checked(api: ApiBench, method: string, path: string, template: string, body?: unknown) {
  const answer = await api.call(method.toUpperCase(), path, body === undefined ? {} : { body: JSON.stringify(body) });
  const type = answer.headers.get('content-type') ?? '';
  expect(faultsOf(method, template, answer.status, type, answer.body)).toEqual([]);
  return answer;
}

it('every example is taken, and every answer is as described', async () => {
  const api = await openApi();
  const { content = {} } = paths['/v1/notifications']?.['post']?.requestBody ?? {};
  const examples = Object.values(content['application/json']?.examples ?? {});
  expect(examples).toHaveLength(2);
  for (const { value } of examples) {
    expect((await checked(api, 'post', '/v1/notifications', '/v1/notifications', value)).status).toBe(202);
  }
  const stream = await api.call('POST', '/v1/notifications', {
    body: content['application/x-ndjson']?.example,
    headers: { 'content-type': 'application/x-ndjson' },
  });
  for (const line of String(stream.body['text']).trim().split('\n'))
    expect(faultsOf('post', '/v1/notifications', 200, 'application/x-ndjson', JSON.parse(line))).toEqual([]);
  const status = await checked(api, 'get', '/v1/notifications/msg-8841', '/v1/notifications/{id}');
  expect(status.body['state']).toBe('waiting');
  expect((await checked(api, 'get', '/v1/recipients/teacher-42', '/v1/recipients/{id}')).body['notTaken']).toHaveLength(
    2,
  );
  await checked(api, 'delete', '/v1/notifications/msg-8841', '/v1/notifications/{id}');
  const byKey = '/v1/recipients/{id}/notifications';
  await checked(api, 'delete', '/v1/recipients/x/notifications?cancellationKey=a', byKey);
  await checked(api, 'delete', '/v1/recipients/x/notifications', byKey);
  await checked(api, 'get', '/v1/notifications/unknown', '/v1/notifications/{id}');
  const [retract, retractKey] = ['/v1/notifications/{id}/retract', '/v1/recipients/{id}/retract'];
  await checked(api, 'post', '/v1/notifications/msg-8842/retract', retract);
  await checked(api, 'post', '/v1/notifications/msg-8842/retract', retract, { badge: 'many' });
  await checked(api, 'post', '/v1/recipients/x/retract', retractKey, { cancellationKey: 'a', badge: 3 });
  await checked(api, 'post', '/v1/recipients/x/retract', retractKey);
});

it('each operation has an id of its own, of which a generated client makes the name of a function', () => {
  const ids = Object.values(paths).flatMap((methods) => Object.values(methods).map((each) => each?.operationId));
  expect(ids.length).toBeGreaterThan(20);
  expect(ids.filter((id, index) => id === undefined || ids.indexOf(id) !== index)).toEqual([]);
});

it('says of each object which fields it may have, and has no default, which a generated client would demand', () => {
  const faulty: string[] = [];
  const look = (value: unknown, path: string): void => {
    if (typeof value !== 'object' || value === null) return;
    const isBare =
      'type' in value && value.type === 'object' && !('properties' in value || 'additionalProperties' in value);
    if (isBare || 'default' in value) faulty.push(path);
    for (const [name, each] of Object.entries(value)) look(each, `${path}/${name}`);
  };
  look(openApiDocument(), '');
  expect(faulty).toEqual([]);
});

/** Nine times of ten the good one. */
const mostly = (good: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 9, arbitrary: good }, { weight: 1, arbitrary: fc.jsonValue() });

/** Notifications of which half are good. */
const bodies = fc
  .record(
    {
      recipientId: mostly(fc.string({ minLength: 1, maxLength: 20, unit: 'grapheme-ascii' })),
      devices: mostly(fc.constant([makeDevice('fcm')])),
      alert: mostly(fc.record({ title: fc.string({ minLength: 1 }) })),
      data: mostly(fc.dictionary(fc.constantFrom('threadId', 'kind', 'Größe'), fc.string())),
      badge: mostly(fc.integer({ min: 0, max: 99 })),
      priority: mostly(fc.constantFrom('high', 'normal')),
      category: mostly(fc.constantFrom('messages', 'news')),
      expiresAt: mostly(fc.constant(new Date(Date.now() + 3_600_000).toISOString())),
    },
    { requiredKeys: [] },
  )
  .map((some) => {
    return JSON.parse(JSON.stringify({ ...makeNotification(), id: undefined, ...some })) as Json;
  });

it('500 generated bodies: what is taken fits the description, and each answer is as described', async () => {
  const api = await openApi();
  let [taken, refused] = [0, 0];
  await fc.assert(
    fc.asyncProperty(fc.oneof(bodies, fc.jsonValue()), async (body) => {
      if (Array.isArray(body)) return;
      const { status } = await checked(api, 'post', '/v1/notifications', '/v1/notifications', body);
      expect([202, 422]).toContain(status);
      if (status === 202) expect(notificationFits(body)).toBe(true);
      if (status === 202) taken++;
      else refused++;
    }),
    { numRuns: 500 },
  );
  expect(Math.min(taken, refused)).toBeGreaterThan(50);
});

it('docs/http-api.md has every variable with its default, and every code of a problem', async () => {
  const text = await readFile('docs/http-api.md', 'utf8');
  const rows = [...text.matchAll(/^\| `(API_\w+)` +\| (\S*) +\|/gm)].map(([, name, value = '']) => [name, value]);
  expect(rows).toEqual(
    API_VARIABLES.map(({ name, default: value }) => [name, value === undefined ? '' : `\`${value}\``]),
  );
  for (const code of PROBLEM_CODES) expect(text).toContain(`\`${code}\``);
});
