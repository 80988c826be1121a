import { expect, it } from 'vitest';
import { openApi, type ApiBench } from '../support/api.ts';
import { makeNotification } from '../support/push.ts';

// What is not UTF-8 would be stored with U+FFFD in place of its letters: another text, and another recipient.

/** `é` in UTF-8 becomes the one byte that it is in ISO 8859-1. */
const latin1 = (text: string): Uint8Array<ArrayBuffer> => new Uint8Array(Buffer.from(text, 'latin1'));

async function send(api: ApiBench, path: string, body: Uint8Array<ArrayBuffer> | string, type: string) {
  const headers = { authorization: `Bearer ${api.secrets.all}`, 'content-type': type };
  const response = await fetch(`${api.url}${path}`, { method: 'POST', headers, body });
  return { status: response.status, text: await response.text() };
}

const accented = (id: string) => JSON.stringify(makeNotification({ id, alert: { title: 'Élève \ufffd' } }));

it('a JSON body that is not UTF-8 is refused, on each path', async () => {
  const api = await openApi();
  for (const [path, text] of [
    ['/v1/notifications', accented('msg-1')],
    ['/v1/recipients/teacher-42/note', '{"text":"élève"}'],
  ] as const) {
    const { status, text: answer } = await send(api, path, latin1(text), 'application/json');
    expect([status, JSON.parse(answer)]).toMatchObject([400, { code: 'not-json', detail: 'the body is not UTF-8' }]);
    expect((await send(api, path, text, 'application/json')).status).toBeLessThan(300);
  }
  expect(await api.queue.getJobCountByTypes()).toBe(1);
});

it('a line of a stream that is not UTF-8 is a fault of that line', async () => {
  const api = await openApi();
  const [before, after] = [Buffer.from(`\ufeff${accented('msg-1')}\n`), Buffer.from(`\n${accented('msg-3')}`)];
  const body = new Uint8Array(Buffer.concat([before, latin1(accented('msg-2')), after]));
  const { text } = await send(api, '/v1/notifications', body, 'application/x-ndjson');
  const lines = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as object);
  expect(lines).toMatchObject([
    { line: 1, result: 'added' },
    { line: 2, result: 'invalid', faults: [{ path: '', expected: 'UTF-8' }] },
    { line: 3, result: 'added' },
    { end: true, added: 2, invalid: 1 },
  ]);
  expect((await api.queue.getJob('msg-3'))?.data).toMatchObject({ alert: { title: 'Élève \ufffd' } });
});

it.each([
  ['GET', '/v1/recipients/%E9l%E8ve'],
  ['POST', '/v1/recipients/%E9/unblock'],
  ['POST', '/v1/recipients/%/retract'],
  ['DELETE', '/v1/recipients/%E9/notifications?cancellationKey=trip'],
])('%s %s, whose recipient is not UTF-8, is refused', async (method, path) => {
  const api = await openApi();
  const { status, body } = await api.call(method, path);
  expect([status, body]).toMatchObject([422, { faults: [{ path: 'id', expected: 'UTF-8, percent-encoded' }] }]);
});
