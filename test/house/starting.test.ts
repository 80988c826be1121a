import { readFile } from 'node:fs/promises';
import { describe, expect, it } from 'vitest';
import { parseNotification } from '../../src/domain/notification.ts';
import { DEFAULT_PREFIX } from '../../src/domain/queue-address.ts';
import { JOB, PRIORITY, QUEUE } from '../../src/queue/names.ts';

const PAGES = ['getting-started', 'faq', 'upgrading', 'capacity', 'when-not'];

const textOf = (page: string) => readFile(`docs/${page}.md`, 'utf8');

it.each(PAGES)('docs/%s.md opens with whom it is for', async (page) => {
  expect(await textOf(page)).toMatch(/^# .+\n\nThis page is for /);
});

it('every answer of docs/faq.md links to a page with more', async () => {
  const [, ...answers] = (await textOf('faq')).split(/^### /m);
  expect(answers.length).toBeGreaterThanOrEqual(12);
  expect(answers.length).toBeLessThanOrEqual(20);
  expect(answers.filter((answer) => !/\]\([a-z-]+\.md/.test(answer))).toEqual([]);
});

describe('the producer in Python of docs/getting-started.md', async () => {
  const code = /```python\n([^]*?)```/.exec(await textOf('getting-started'))?.[1] ?? '';

  it('adds a notification that fits', () => {
    const data = /NOTIFICATION = (\{[^]*?^\})/m.exec(code)?.[1] ?? '';
    const notification: unknown = JSON.parse(data.replaceAll(/,(?=\s*[}\]])/g, '')); // the rest of it is JSON
    expect(parseNotification(notification)).toMatchObject({ ok: true });
  });

  it('adds it where workers look, as they expect it', () => {
    expect(code).toContain(`Queue("${QUEUE}", {`);
    expect(code).toContain(`"prefix": "${DEFAULT_PREFIX}"`);
    expect(code).toContain(
      `queue.add("${JOB}", NOTIFICATION, {"jobId": NOTIFICATION["id"], "priority": ${PRIORITY.normal}})`,
    );
  });
});
