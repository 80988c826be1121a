import { globSync } from 'node:fs';
import { dirname } from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/config.ts';
import { CONFIG_VARIABLES, SECRET_VARIABLES } from '../../src/config/variables.ts';
import { PLATFORMS } from '../../src/notification/notification.ts';
import type { AnswerTables, ReplyTable } from '../../src/providers/provider.ts';
import { PROVIDERS } from '../../src/providers/registry.ts';
import { describeRow, readAnswers } from '../providers/answers-table.ts';
import { openSandbox } from '../support/sandbox.ts';

test('every folder with a provider is in the registry, and every platform has a provider', () => {
  const folders = globSync('src/providers/*/index.ts').map((path) => dirname(path).replace('src/providers/', ''));
  expect(folders.length).toBeGreaterThan(1);
  expect(folders.sort()).toEqual([...PLATFORMS].sort());
  expect(Object.keys(PROVIDERS).sort()).toEqual([...PLATFORMS].sort());
  for (const platform of PLATFORMS) expect(PROVIDERS[platform].platform).toBe(platform);
});

test('no two providers read the same variable, and their secrets and quotas are variables of the README', () => {
  const names = CONFIG_VARIABLES.map(({ name }) => name);
  const own = PLATFORMS.flatMap((platform) => {
    const { variables, quota } = PROVIDERS[platform].settings;
    return [...Object.keys(variables.shape), quota.variable];
  });
  expect(new Set(own).size).toBe(own.length);
  expect(names).toEqual(expect.arrayContaining([...own, ...SECRET_VARIABLES]));
  for (const { name, meaning } of CONFIG_VARIABLES) expect([name, meaning]).not.toContain('');
});

test('the sandbox has a server for every provider, and configures a worker for all of them', async () => {
  const sandbox = await openSandbox();
  expect(Object.keys(loadConfig(sandbox.env()).providers)).toEqual(PLATFORMS);
});

describe.each(PLATFORMS)('%s', (platform) => {
  const { name, answers, settings } = PROVIDERS[platform];

  test('is off where nothing of it is given, and its quota is a bound of its own', () => {
    const none = { ALLOW_NO_CREDENTIALS: 'true' };
    expect(loadConfig(none).providers).not.toHaveProperty(platform);
    expect(loadConfig({ ...none, [settings.quota.variable]: '5/1s' }).quotas).toEqual({
      [platform]: [{ max: 5, perMs: 1_000 }],
    });
  });

  test('docs/provider-faults.md says what its answers mean', async () => {
    const documented = await readAnswers(`What ${name} answers`);
    const table = tableOf(answers);
    expect(documented.map(({ code }) => code).sort()).toEqual(Object.keys(table).sort());
    for (const answer of documented) {
      const row = table[answer.code];
      expect(answer).toEqual(row && describeRow(answer.code, row));
    }
  });
});

/** All that the document has to say of a provider, by the code that it shows. */
function tableOf({ accepted, words, statuses, signIn }: AnswerTables): ReplyTable {
  const byStatus = Object.entries(statuses).map(([status, row]) => [`http-${status}`, row] as const);
  return { [accepted.code]: accepted, ...words, ...Object.fromEntries(byStatus), ...signIn };
}
