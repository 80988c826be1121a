import { generateKeyPairSync } from 'node:crypto';
import { mkdirSync, readFileSync } from 'node:fs';
import { mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it, onTestFinished } from 'vitest';
import { makeAuthority } from '../../sandbox/loopback/certificates.ts';
import { loadConfig, reloadCredentials, type Config } from '../../src/config/config.ts';
import { formatFault } from '../../src/domain/faults.ts';
import { PLATFORMS } from '../../src/notification/notification.ts';
import { watchFiles } from '../../src/environment/files.ts';
import { temporaryFolder } from '../support/program.ts';
import { waitFor } from '../support/wait.ts';
import { dir, faultLines, file, NONE } from './support.ts';

const pem = (curve: string) =>
  generateKeyPairSync('ec', { namedCurve: curve }).privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
const key = pem('prime256v1');
const account = { type: 'service_account', project_id: 'teachers-1', client_email: 'a@b.example', private_key: key };
const apns = { keyFile: 'teacher.p8', keyId: 'KEY1', teamId: 'TEAM1', topic: 'dev.school.teacher' };

function load(content: unknown, env: Readonly<Record<string, string>> = {}): Config {
  return loadConfig({ ...NONE, APPS_FILE: file('apps.json', content), ...env });
}

function faultsOf(content: unknown, env: Readonly<Record<string, string>> = {}): string[] {
  return faultLines(() => load(content, env));
}

const withApns = (fields: object) => ({ apps: { teacher: { apns: fields } } });

describe('a file of apps', () => {
  it('has for each app the options and quotas that variables would have, and names its files', async () => {
    file('teacher.p8', key);
    const credentialsFile = file('teacher.json', account);
    const { cert: ca } = await makeAuthority(Date.now());
    const caFile = file('ca.pem', ca);
    const fcm = { credentialsFile, caFile: 'ca.pem', quota: '600/1m', endpoint: 'https://localhost:9443' };
    const { apps, files, providers } = load({
      apps: { teacher: { apns, fcm }, 'parent-2.b': { fcm: { projectId: 'p-1' } } },
    });
    expect(Object.fromEntries(apps)).toEqual({
      teacher: {
        providers: {
          apns: { key, keyId: 'KEY1', teamId: 'TEAM1', topic: apns.topic, endpoint: 'https://api.push.apple.com' },
          fcm: { projectId: 'teachers-1', endpoint: 'https://localhost:9443', ca },
        },
        quotas: { fcm: [{ max: 600, perMs: 60_000 }] },
      },
      'parent-2.b': { providers: { fcm: { projectId: 'p-1', endpoint: 'https://fcm.googleapis.com' } }, quotas: {} },
    });
    expect(files).toEqual([join(dir, 'apps.json'), join(dir, 'teacher.p8'), credentialsFile, caFile]);
    expect(providers).toEqual({});
  });

  it('stands beside the app of the environment, which has its own', () => {
    const { apps, providers, quotas } = load(withApns({ ...apns, quota: '5/1s' }), {
      ...{ APNS_KEY: key, APNS_KEY_ID: 'K', APNS_TEAM_ID: 'T', APNS_TOPIC: 'dev.school', APNS_QUOTA: '1/1s' },
    });
    expect([providers.apns?.topic, apps.get('teacher')?.providers.apns?.topic]).toEqual(['dev.school', apns.topic]);
    expect([quotas.apns, apps.get('teacher')?.quotas.apns].map((rules) => rules?.[0]?.max)).toEqual([1, 5]);
  });

  it('may have no app, and an app of any name', () => {
    expect(load({ apps: {} }).apps.size).toBe(0);
    const text = `{ "apps": { "__proto__": { "fcm": { "projectId": "p" } }, "constructor": { "fcm": { "projectId": "q" } } } }`;
    expect([...load(text).apps.keys()]).toEqual(['__proto__', 'constructor']);
  });

  it('is found relative to the working directory, and its files relative to itself', () => {
    file('teacher.p8', key);
    const path = relative(process.cwd(), file('apps.json', withApns(apns)));
    expect(loadConfig({ APPS_FILE: path }).apps.get('teacher')?.providers.apns?.key).toBe(key);
  });

  it('is shown in docs/apps.md as the example has it, which has no faults', () => {
    const example = readFileSync('examples/apps.json', 'utf8');
    expect(readFileSync('docs/apps.md', 'utf8')).toContain(example);
    mkdirSync(join(dir, 'keys'));
    file('keys/teacher.p8', key);
    for (const name of ['teacher', 'parent']) file(`keys/${name}.json`, account);
    expect([...load(example).apps.keys()]).toEqual(['teacher', 'parent']);
  });
});

describe('faults of a file of apps', () => {
  it('are all reported at once, by file and path, with those of the environment', () => {
    const content = {
      apps: {
        teacher: { apns: { ...apns, keyFile: 'none.p8', keyid: 'K', topic: 7 }, fcm: { projectId: 'Not A Project' } },
        parent: { apns: { keyId: 'K', quota: '0/1m' }, sms: {} },
        pupil: { fcm: {} },
        guest: [],
        'a b': {},
      },
    };
    expect(faultsOf(content, { ATTEMPTS: '0' })).toEqual([
      'ATTEMPTS: expected an integer from 1 to 1000, found "0"',
      'apps.json: apps.teacher.apns.topic: expected a string, found a number',
      'apps.json: apps.teacher.apns.keyid: expected one of keyFile, key, keyId, teamId, topic, endpoint, channelsEndpoint, caFile, quota, found another field',
      'apps.json: apps.teacher.apns.keyFile: expected a file that can be read, found "none.p8" (ENOENT)',
      'apps.json: apps.teacher.fcm.projectId: expected a project id such as my-app-1234, found "Not A Project"',
      `apps.json: apps.parent.sms: expected one of ${PLATFORMS.join(', ')}, found another field`,
      expect.stringMatching(
        /^apps.json: apps.parent.apns.quota: expected rules as max\/per, such as .*quota\[0\]\.max/,
      ),
      'apps.json: apps.parent.apns.keyFile: expected the .p8 key (or key), since APNs is configured, found nothing',
      'apps.json: apps.parent.apns.teamId: expected a value, since APNs is configured, found nothing',
      'apps.json: apps.parent.apns.topic: expected a value, since APNs is configured, found nothing',
      'apps.json: apps.pupil.fcm: expected credentials, found none',
      'apps.json: apps.guest: expected an object, found an array of 0',
      'apps.json: apps.(a name of 3 characters): expected a name of 1 to 64 of A-Z a-z 0-9 . _ -, found another one',
    ]);
  });

  it.each([
    ['no JSON', '{ "apps": ', /^APPS_FILE: expected JSON, found text that is not JSON/],
    ['no object', '[]', /^apps.json: expected an object, found an array of 0$/],
    ['no apps', '{}', /^apps.json: apps: expected an object, found nothing$/],
    ['another field', '{ "apps": {}, "app": 1 }', /^apps.json: app: expected one of apps, found another field$/],
    ['an app without a platform', '{ "apps": { "a": {} } }', /^apps.json: apps.a: expected an object with apns or fcm/],
    ['apps of the wrong kind', '{ "apps": "teacher" }', /^apps.json: apps: expected an object, found a string of 7/],
  ])('a file with %s', (_, text, fault) => {
    expect(faultsOf(text)).toEqual([expect.stringMatching(fault)]);
  });

  it('are those of the files that it names, too', () => {
    file('teacher.p8', pem('secp384r1'));
    const fcm = { credentialsFile: file('other.json', { type: 'external_account' }), projectId: 'p-1' };
    const noCa = { ...fcm, caFile: file('no-ca.pem', key) };
    expect(faultsOf({ apps: { teacher: { apns, fcm: noCa } } })).toEqual([
      'apps.json: apps.teacher.apns.keyFile: expected a PEM private key on the P-256 curve, found something else',
      'apps.json: apps.teacher.fcm.credentialsFile: expected a service account as JSON with project_id, client_email and private_key, found something else',
      'apps.json: apps.teacher.fcm.caFile: expected a certificate as PEM, found something else',
    ]);
  });

  it('never show a secret', () => {
    const endpoint = 'http://user:sesame@localhost';
    const secrets = { ...apns, key: 'sesame', endpoint, [`sesame ${key}`]: 'sesame' };
    const texts = [
      withApns(secrets),
      withApns({ keyFile: key }),
      { apps: { [key]: {} } },
      { apps: key },
      key,
      { [key]: 1 },
    ];
    const faults = texts.flatMap((content) => faultsOf(content));
    expect(faults.length).toBeGreaterThan(texts.length);
    for (const line of key.split('\n').slice(0, 3)) expect(faults.join('\n')).not.toContain(line);
    expect(faults.join('\n')).not.toContain('sesame');
  });
});

describe('reading anew', () => {
  it('says which accounts have faults, and reads the others', () => {
    file('teacher.p8', 'no key');
    const path = file('apps.json', {
      apps: { teacher: { apns, fcm: { projectId: 'p' } }, parent: { fcm: { projectId: 'q' } } },
    });
    const { credentials, faults, isFaulty } = reloadCredentials({ APPS_FILE: path, FCM_PROJECT_ID: 'r' });
    expect(faults.map(formatFault)).toHaveLength(1);
    expect([isFaulty('apns~teacher'), isFaulty('fcm~teacher'), isFaulty('fcm~parent'), isFaulty('fcm')]).toEqual([
      ...[true, false, false, false],
    ]);
    expect(credentials.apps.get('parent')?.providers.fcm?.projectId).toBe('q');
    expect(credentials.providers.fcm?.projectId).toBe('r');
  });

  it('trusts nothing of a file that cannot be read, and reads the app of the environment', () => {
    const { isFaulty, faults } = reloadCredentials({ APPS_FILE: join(dir, 'gone.json'), FCM_PROJECT_ID: 'r' });
    expect(faults).toHaveLength(1);
    expect([isFaulty('fcm~teacher'), isFaulty('fcm')]).toEqual([true, false]);
  });
});

function loadLimits(content: unknown): Config['categories'] {
  return loadConfig({ ...NONE, LIMITS_FILE: file('limits.json', content) }).categories;
}

const limitsFaults = (content: unknown): string[] => faultLines(() => loadLimits(content));

describe('a file of limits', () => {
  it('has a policy for each category, written as the variables are, and docs/limits.md shows the example', () => {
    expect(readFileSync('docs/limits.md', 'utf8')).toContain(readFileSync('examples/limits.json', 'utf8'));
    expect(loadConfig({ ...NONE, LIMITS_FILE: 'examples/limits.json' }).categories).toEqual({
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

  it('may have a gap alone, and no category at all', () => {
    expect(loadLimits('{ "categories": { "messages": { "minGap": "10s" } } }')).toEqual({
      messages: { rules: [], minGapMs: 10_000 },
    });
    expect(loadLimits('{ "categories": {} }')).toEqual({});
  });

  it('takes every category for what it is called', () => {
    const categories = loadLimits('{ "categories": { "__proto__": { "rules": "1/1d" }, "a.b": { "minGap": "1s" } } }');
    expect(Object.keys(categories)).toEqual(['__proto__', 'a.b']);
    expect(categories['__proto__']).toEqual({ rules: [{ max: 1, perMs: 86_400_000 }], minGapMs: 0 });
    for (const name of ['constructor', 'toString']) expect(categories[name]).toBeUndefined();
  });
});

describe('faults of a file of limits', () => {
  it('are reported all at once, beside those of the variables', () => {
    const categories = {
      messages: { rules: '5/1m,x,0/1h', minGap: '10' },
      homework: { rule: '3/1h' },
      digests: { rules: ['1/1d'], minGap: 0, gap: '3s' },
      'two words': { rules: '1/1d' },
      empty: {},
      text: '1/1d',
      urgent: { exempt: ['gap'] },
      calls: { minGap: '1s', exempt: ['gaps'] },
    };
    expect(limitsFaults({ categories, version: 1, category: {} })).toEqual([
      'LIMITS_FILE: version: expected no such field, found one',
      'LIMITS_FILE: category: expected no such field (did you mean categories?), found one',
      'LIMITS_FILE: categories.messages.rules[1]: expected max/per, such as 10/1m, found "x"',
      'LIMITS_FILE: categories.messages.rules[2].max: expected an integer from 1 to 100000, found 0',
      'LIMITS_FILE: categories.messages.minGap: expected "0" or a duration such as 250ms, 3s, 1m, 2h or 1d, at most 31d, found "10"',
      'LIMITS_FILE: categories.homework.rule: expected no such field (did you mean rules?), found one',
      'LIMITS_FILE: categories.homework: expected rules, minGap or both, found neither',
      'LIMITS_FILE: categories.digests.gap: expected no such field (did you mean minGap?), found one',
      'LIMITS_FILE: categories.digests.rules: expected a string of rules, such as "10/1m,200/1h", found an array of 1',
      'LIMITS_FILE: categories.digests.minGap: expected "0" or a duration such as 250ms, 3s, 1m, 2h or 1d, at most 31d, found 0',
      'LIMITS_FILE: categories: expected names of 1 to 64 of A-Z a-z 0-9 . _ -, found "two words"',
      'LIMITS_FILE: categories.empty: expected rules, minGap or both, found neither',
      'LIMITS_FILE: categories.text: expected an object, found "1/1d"',
      'LIMITS_FILE: categories.urgent: expected rules or minGap of its own beside exempt, so that not every alert goes at once, found neither',
      'LIMITS_FILE: categories.calls.exempt[0]: expected gap, rules or quietHours (did you mean gap?), found "gaps"',
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
  ])('of %s', (text, fault) => expect(limitsFaults(text)).toEqual([fault]));
});

const EVERY_MS = 20;

/** Watches a file of a new folder; the first call, which comes without any change, has passed. */
async function openWatch() {
  const folder = await temporaryFolder();
  const path = join(folder, 'key.p8');
  await writeFile(path, 'old');
  let calls = 0;
  const watch = watchFiles(() => (calls += 1), EVERY_MS);
  onTestFinished(() => watch.stop());
  watch.use([path, path]);
  const until = (count: number) => waitFor(() => expect(calls).toBe(count));
  await until(1);
  return { folder, path, watch, until, calls: () => calls };
}

it('a change is reported of a file that was written, replaced, removed and made again', async () => {
  const { folder, path, until, calls } = await openWatch();
  await writeFile(path, 'new');
  await until(2);
  await writeFile(join(folder, 'draft'), 'newer');
  await rename(join(folder, 'draft'), path);
  await until(3);
  await rm(path);
  await until(4);
  await writeFile(path, 'again');
  await until(5);
  await sleep(10 * EVERY_MS);
  expect(calls()).toBe(5);
});

it('a change is reported of a symbolic link that points elsewhere, as Kubernetes changes mounted secrets', async () => {
  const { folder, watch, until } = await openWatch();
  for (const version of ['..1', '..2']) {
    await mkdir(join(folder, version));
    await writeFile(join(folder, version, 'apps.json'), version);
  }
  await symlink('..1', join(folder, '..data'));
  await symlink('..data/apps.json', join(folder, 'apps.json'));
  watch.use([join(folder, 'apps.json')]);
  await until(2); // its files are others now
  await symlink('..2', join(folder, '..new'));
  await rename(join(folder, '..new'), join(folder, '..data'));
  await until(3);
});

it('nothing is reported after the end of a watch', async () => {
  const { path, watch, calls } = await openWatch();
  watch.stop();
  await writeFile(path, 'new');
  await sleep(10 * EVERY_MS);
  expect(calls()).toBe(1);
});
