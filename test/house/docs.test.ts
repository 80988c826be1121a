import { globSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { CONFIG_VARIABLES } from '../../src/config/variables.ts';
import { notificationSchema } from '../../src/domain/notification-schema.ts';
import * as sandbox from '../../sandbox/index.ts';
import * as library from '../../src/index.ts';
import { PROVIDERS } from '../../src/providers/registry.ts';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { runSnippet } from '../support/snippet.ts';

const PAGES = await Promise.all(
  globSync('{docs/*,CONTRIBUTING,README}.md')
    .sort()
    .map(async (page) => ({ page, text: await readFile(page, 'utf8') })),
);
const DOCS = PAGES.filter(({ page }) => page.startsWith('docs/'));
/** A longer cell of a table is a paragraph: it belongs into a list. In characters; prettier wraps all other text at 100. */
const LONGEST_CELL = 140;

describe.each(DOCS)('$page', ({ text }) => {
  const [title = '', opening = ''] = text.split(/\n{2,}/);

  it('opens with a title and a sentence that says what it is for', () => {
    expect(title).toMatch(/^# [^\n]+$/);
    expect(opening).toMatch(/^[\p{L}\d*_`[][^]*[.:]$/u);
    expect(opening).not.toMatch(/^([-*] |\d+\. )/);
  });

  it('has no paragraph in the cell of a table', () => {
    const rows = withoutFences(text)
      .split('\n')
      .filter((line) => line.startsWith('|'));
    const cells = rows.flatMap((row) => row.split(/(?<!\\)\|/).map((cell) => cell.trim()));
    expect(cells.filter((cell) => cell.length > LONGEST_CELL && !/^-+$/.test(cell))).toEqual([]);
  });
});

describe('names in the documentation', () => {
  const spans = PAGES.flatMap(({ page, text }) =>
    [...withoutFences(text).matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => ({ page, code })),
  );
  /** Names that are not a variable of a worker, a word of a provider or an export of the package. */
  const OTHERS = [
    'NODE_TLS_REJECT_UNAUTHORIZED',
    'NO_COLOR',
    'FORCE_COLOR',
    'REFUSED_STREAM',
    'LIMIT_RULE',
    'SANDBOX_URL',
    'SANDBOX_PORT',
  ];

  it('in capitals are variables that a worker reads, words of a provider, exports, or known others', () => {
    const words = Object.values(PROVIDERS).flatMap(({ answers }) => Object.keys(answers.words));
    const known = new Set([
      ...CONFIG_VARIABLES.map(({ name }) => name),
      ...words,
      ...Object.keys({ ...library, ...sandbox }),
      ...OTHERS,
    ]);
    const named = spans.flatMap(({ page, code }) =>
      [...code.matchAll(/(?<![\w/])[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?!\w)/g)].map(([name]) => ({ page, name })),
    );
    expect(named.length).toBeGreaterThan(50);
    expect(named.filter(({ name }) => !known.has(name))).toEqual([]);
  });

  it('of files are those of files that are there', () => {
    const exclude = ['**/node_modules/**', 'dist/**'];
    const files = globSync(['*.md', '{docs,src,sandbox,workers,scripts,demo,chaos,tools,test,bench,examples}/**/*.*'], {
      exclude,
    });
    const named = spans.flatMap(({ page, code }) =>
      [...code.matchAll(/(?<![\w./<>…*-])[\w-][\w./-]*\.(?:ts|md|lua)(?![\w./])/g)].map(([name]) => ({ page, name })),
    );
    expect(named.length).toBeGreaterThan(50);
    const missing = named.filter(({ name }) => !files.some((file) => file === name || file.endsWith(`/${name}`)));
    expect(missing).toEqual([]);
  });
});

describe('what the pages for those who still choose say that there is not', () => {
  /** With which words a page might deny what there is, by the field or the variable that does it; null for what nobody would deny. */
  const WORDS: Readonly<Record<string, RegExp | null>> = {
    id: null,
    recipientId: null,
    data: null,
    alert: null,
    devices: /several devices|more than one device/,
    pushType: /(?:background|silent) push(?:es)?/,
    liveActivity: /live activit(?:y|ies)/,
    sound: /sounds?/,
    imageUrl: /images?|pictures?/,
    badge: /badges?/,
    category: /categor(?:y|ies)/,
    priority: /priorit(?:y|ies)/,
    collapseId: /collaps\w*|replaces?|replaced/,
    sendAfter: /schedul\w*|date to send|sends? (?:it |them |one )?(?:later|tomorrow)/,
    expiresAt: /expir\w*|time to live/,
    cancellationKey: /cancel\w*|calls? (?:it |them )?back|called back/,
    onThrottle: /drops?|dropped|newest/,
    digest: /merges?|merged?|merge them|summar(?:y|ies)|digests?/,
    onQuiet: /quiet (?:hours|times?)|time zones?/,
    apns: /iphones?/,
    android: /android/,
    fcm: /fcm/,
    webpush: /web push|browsers?/,
    analyticsLabel: /analytics/,
    exempt: /at once with a sound|urgent|emergenc(?:y|ies)/,
    APPS_FILE: /several apps|apps of their own/,
    APNS_QUOTA: /quotas?/,
    OUTCOMES_MAX: /outcomes?|webhooks?|what became of/,
    METRICS_PORT: /metrics?|prometheus/,
  };
  const CHOOSING = ['README.md', 'docs/when-not.md', 'docs/faq.md', 'docs/comparison.md'];
  const NO = String.raw`(?:\b(?:no|cannot|does not|do not|not yet)\b|^not)(?:\s+[\w'-]+){0,6}?\s+(?:`;

  function denials(text: string): string[] {
    const plain = withoutFences(text).replaceAll(/\]\([^)]*\)|[[\]`*_]/g, '');
    return plain.split(/[.;:,()|]|\n\n/).flatMap((clause) => {
      const words = clause.replaceAll(/\s+/g, ' ').trim();
      return Object.values(WORDS).some((named) => named && new RegExp(`${NO}${named.source})\\b`, 'i').test(words))
        ? [words]
        : [];
    });
  }

  it.each([
    'There is no date to send at, no time zone and no quiet hours.',
    'No field sends a blocked alert at once with a sound: that would be the burst.',
    'pushpacer delays alerts; it does not merge them.',
    'There are no images.',
    'It cannot be canceled.',
  ])('%j would be found', (claim) => {
    expect(denials(claim)).not.toEqual([]);
  });

  it('knows the words of every field of a notification', () => {
    expect(Object.keys(notificationSchema.shape).filter((field) => !(field in WORDS))).toEqual([]);
    const others = Object.keys(WORDS).filter((name) => /^[A-Z]/.test(name));
    expect(others.filter((name) => !CONFIG_VARIABLES.some((variable) => variable.name === name))).toEqual([]);
  });

  it.each(CHOOSING)('%s denies nothing that there is', (page) => {
    expect(denials(PAGES.find((each) => each.page === page)?.text ?? 'no such page: no images')).toEqual([]);
  });
});

it.each([
  ['docs/limiter.md', 'limiter-library', 'admitted newsletters:1/1d 0\n'],
  ['docs/limiter.md', 'limiter-moved', 'msg-1 24 hours earlier\n'],
  ['docs/quota.md', 'quota', 'taken 599999\n'],
  ['docs/broadcasts.md', 'broadcast', '1200 0\n0 1200\n'],
])('what %s shows is answered as it says', async (page, name, answer) => {
  const redis = await startEmbeddedRedis();
  onTestFinished(() => redis.close());
  const { code, stdout } = await runSnippet(page, name, redis.url);
  expect({ code, stdout }).toEqual({ code: 0, stdout: answer });
});

it('every snippet of docs/http.md is part of an example, and so is run', async () => {
  const docs = await readFile('docs/http.md', 'utf8');
  const examples = await Promise.all(['express', 'fastify'].map((name) => readFile(`examples/${name}.ts`, 'utf8')));
  const snippets = [...docs.matchAll(/```ts\n([^]*?)```/g)].map(([, code]) => code ?? '');
  expect(snippets).toHaveLength(2);
  for (const [index, snippet] of snippets.entries()) expect(examples[index]).toContain(snippet);
});

function withoutFences(text: string): string {
  return text.replace(/^ *```[^\n]*\n[^]*?^ *```$/gm, '');
}
