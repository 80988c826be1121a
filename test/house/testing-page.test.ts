import { readFile } from 'node:fs/promises';
import { expect, onTestFinished, test } from 'vitest';
import { refusalOf, statusesOf, WORDS, parseScriptText } from '../../sandbox/answers.ts';
import { serveControl } from '../../sandbox/control.ts';
import { openSandbox } from '../support/sandbox.ts';

const page = await readFile('docs/testing.md', 'utf8');

test('every curl of the page is answered with success', async () => {
  const sandbox = await openSandbox();
  const control = await serveControl(sandbox, { port: 0, host: '127.0.0.1' });
  onTestFinished(() => control.close());
  const calls = [...page.matchAll(/^curl (?:-X ([A-Z]+) )?"\$SANDBOX_URL([^"]*)"(?: -d '([^']*)')?$/gm)];
  expect(calls).toHaveLength([...page.matchAll(/^curl /gm)].length);
  expect(calls.length).toBeGreaterThan(5);
  for (const [line, method = 'GET', path = '', body] of calls) {
    const answer = await fetch(`http://127.0.0.1:${control.port}${path}`, {
      method,
      ...(body === undefined ? {} : { body }),
    });
    expect([line, answer.ok]).toEqual([line, true]);
    await answer.text();
  }
});

test("the page's script is one, and so is its fault", () => {
  const [script = '', fault = ''] = [...page.matchAll(/```json\n([^]*?)```/g)].map(([, text]) => text ?? '');
  expect(parseScriptText(script)).toHaveLength(4);
  const { error } = JSON.parse(fault) as { error: string };
  expect(() => parseScriptText('{ "answers": [{ "status": 503, "times": 0 }] }')).toThrow(error);
});

test('the table of statuses has every one, with the word that is answered', () => {
  const rows = [...page.matchAll(/^\| (\d{3}) +\| (.*?) +\| (.*?) +\|$/gm)].map(([, status, apns, fcm]) => ({
    status: Number(status),
    words: { apns: apns ?? '', fcm: fcm ?? '' },
  }));
  for (const platform of ['apns', 'fcm'] as const) {
    const documented = rows.filter(({ words }) => words[platform] !== '');
    expect(documented.map(({ status }) => status)).toEqual(statusesOf(platform));
    for (const { status, words } of documented) {
      const answer = refusalOf(platform, { status }, 0);
      const word = /^`(\w+)`$/.exec(words[platform])?.[1];
      expect(answer).toMatchObject(word === undefined ? { status, emptyBody: true } : { status });
      if (word === undefined) continue;
      expect(WORDS[platform].reasons[word]).toBe(status);
      expect(answer.reason ?? word).toBe(word); // words of Google's front end are in no FcmError
    }
  }
});
