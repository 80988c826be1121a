import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, describe, expect, it } from 'vitest';
import { loadConfig } from '../../src/config/config.ts';
import type { Policy } from '../../src/domain/limits.ts';

const dir = mkdtempSync(join(tmpdir(), 'pushpacer-limits-'));
afterAll(() => {
  rmSync(dir, { recursive: true });
});

function load(text: string): Readonly<Record<string, Policy>> {
  const path = join(dir, 'limits.json');
  writeFileSync(path, text);
  return loadConfig({ LIMITS_FILE: path }).categories;
}

function faultsOf(content: unknown): string[] {
  try {
    load(typeof content === 'string' ? content : JSON.stringify(content));
    return [];
  } catch (error) {
    return (error as Error).message
      .replace(/^bad environment:\s*/, '')
      .split('\n')
      .map((line) => line.trim());
  }
}

describe('a file of limits', () => {
  it('has a policy for each category, written as the variables are', () => {
    expect(loadConfig({ LIMITS_FILE: 'examples/limits.json' }).categories).toEqual({
      messages: {
        rules: [
          { max: 5, perMs: 60_000 },
          { max: 50, perMs: 3_600_000 },
        ],
        minGapMs: 10_000,
      },
      homework: { rules: [{ max: 3, perMs: 3_600_000 }], minGapMs: 0 },
      digests: { rules: [{ max: 1, perMs: 86_400_000 }], minGapMs: 43_200_000 },
    });
  });

  it('is shown in docs/limits.md as the example has it', () => {
    expect(readFileSync('docs/limits.md', 'utf8')).toContain(readFileSync('examples/limits.json', 'utf8'));
  });

  it('may have a gap alone, and no category at all', () => {
    expect(load('{ "categories": { "messages": { "minGap": "10s" } } }')).toEqual({
      messages: { rules: [], minGapMs: 10_000 },
    });
    expect(load('{ "categories": {} }')).toEqual({});
  });

  it('takes every category for what it is called', () => {
    const categories = load('{ "categories": { "__proto__": { "rules": "1/1d" }, "a.b": { "minGap": "1s" } } }');
    expect(Object.keys(categories)).toEqual(['__proto__', 'a.b']);
    expect(categories['__proto__']).toEqual({ rules: [{ max: 1, perMs: 86_400_000 }], minGapMs: 0 });
    for (const name of ['constructor', 'toString']) expect(categories[name]).toBeUndefined();
  });
});

describe('faults of a file of limits', () => {
  it('are told all at once, beside those of the variables', () => {
    const categories = {
      messages: { rules: '5/1m,x,0/1h', minGap: '10' },
      homework: { rule: '3/1h' },
      digests: { rules: ['1/1d'], minGap: 0 },
      'two words': { rules: '1/1d' },
      empty: {},
      text: '1/1d',
    };
    expect(faultsOf({ categories, version: 1 })).toEqual([
      'LIMITS_FILE: version: expected no such field, found one',
      'LIMITS_FILE: categories.messages.rules[1]: expected max/per, such as 10/1m, found "x"',
      'LIMITS_FILE: categories.messages.rules[2].max: expected an integer from 1 to 100000, found 0',
      'LIMITS_FILE: categories.messages.minGap: expected "0" or a duration such as 250ms, 3s, 1m, 2h or 1d, at most 31d, found "10"',
      'LIMITS_FILE: categories.homework.rule: expected no such field (did you mean rules?), found one',
      'LIMITS_FILE: categories.homework: expected rules, minGap or both, found neither',
      'LIMITS_FILE: categories.digests.rules: expected a string of rules, such as "10/1m,200/1h", found an array of 1',
      'LIMITS_FILE: categories.digests.minGap: expected "0" or a duration such as 250ms, 3s, 1m, 2h or 1d, at most 31d, found 0',
      'LIMITS_FILE: categories: expected names of 1 to 64 of A-Z a-z 0-9 . _ -, found "two words"',
      'LIMITS_FILE: categories.empty: expected rules, minGap or both, found neither',
      'LIMITS_FILE: categories.text: expected an object, found "1/1d"',
    ]);
  });

  it.each([
    ['{}', 'LIMITS_FILE: categories: expected an object, found nothing'],
    ['[]', 'LIMITS_FILE: expected an object, found an array of 0'],
    ['null', 'LIMITS_FILE: expected an object, found null'],
    ['{ "categories": null }', 'LIMITS_FILE: categories: expected an object, found null'],
    ['{ "categories": {}, "__proto__": {} }', 'LIMITS_FILE: __proto__: expected no such field, found one'],
    ['', 'LIMITS_FILE: expected JSON, found text that is not JSON'],
    ['{\n  "categories" {}\n}', 'LIMITS_FILE: expected JSON, found text that is not JSON at line 2 column 16'],
  ])('of %s', (text, fault) => expect(faultsOf(text)).toEqual([fault]));

  it('do not repeat what is in a file that is another one', () => {
    expect(faultsOf('hunter2 is the password').join()).not.toContain('hunter2');
  });

  it('name a file that cannot be read', () => {
    expect(() => loadConfig({ LIMITS_FILE: '/nowhere/limits.json' })).toThrow(
      'LIMITS_FILE: expected a file that can be read, found "/nowhere/limits.json" (ENOENT)',
    );
  });
});
