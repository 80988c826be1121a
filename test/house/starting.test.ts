import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { copyFile, mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseNotification } from '../../src/domain/notification.ts';
import { DEFAULT_PREFIX } from '../../src/redis/target.ts';
import { JOB, PRIORITY, QUEUE } from '../../src/queue/names.ts';
import { temporaryFolder } from '../support/program.ts';

/** The machine's own Node, which may be too old for the sources, and ours. */
const MAY_BE_OLD = ['/usr/bin/node', '/usr/local/bin/node', process.execPath].filter(existsSync);
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

it.each(MAY_BE_OLD)(
  'a clone without its packages says what to do before it builds or packs, with %s too',
  async (node) => {
    const folder = await temporaryFolder();
    await mkdir(join(folder, 'tools'));
    for (const file of ['package.json', 'tools/installed.js']) await copyFile(file, join(folder, file));
    const script = join(folder, 'tools/installed.js');
    const { status, stderr } = spawnSync(node, [script], { encoding: 'utf8' });
    expect({ status, stderr }).toEqual({ status: 1, stderr: expect.stringContaining('run "npm ci" in it') as string });
    const { scripts } = JSON.parse(await readFile('package.json', 'utf8')) as { scripts: Record<string, string> };
    expect(scripts).toMatchObject({ prepack: 'npm run build', prebuild: 'node tools/installed.js' });
    const { stderr: ofPack, status: exit } = spawnSync('npm', ['pack'], {
      cwd: folder,
      encoding: 'utf8',
      env: plainEnv(),
    });
    expect(exit).not.toBe(0);
    expect(ofPack).toContain('run "npm ci" in it');
  },
);

/** Without what npm has told its own script. */
function plainEnv(): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('npm_')));
}

it('a clone with its packages is built', () => {
  expect(spawnSync(process.execPath, ['tools/installed.js']).status).toBe(0);
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
