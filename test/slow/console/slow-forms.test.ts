import { expect, it } from 'vitest';
import { openConsole } from '../../support/console.ts';
import { sendHead } from '../../support/raw-request.ts';

/** A byte comes so often. */
const EVERY_MS = 1_000;

it.each(['/login', '/recipients/ana/block'])('a form that comes byte by byte has 30 s: %s', async (path) => {
  const { url, secrets } = await openConsole({ CONSOLE_LOGIN: 'true' }, { olga: ['operate'] });
  const headers = {
    ...{ 'content-type': 'application/x-www-form-urlencoded', 'content-length': 4_000 },
    ...{ 'sec-fetch-site': 'same-origin', cookie: `pushpacer_console=${secrets['olga'] ?? ''}` },
  };
  const began = performance.now();
  const request = await sendHead(url, `POST ${path}`, headers);
  const bytes = setInterval(() => {
    request.write('a');
  }, EVERY_MS);
  const { status, text } = await request.answer().finally(() => {
    clearInterval(bytes);
  });
  expect([status, text]).toEqual([408, 'the form did not come whole within 30 s\n']);
  expect(performance.now() - began).toBeGreaterThan(29_000);
  await request.ended;
});
