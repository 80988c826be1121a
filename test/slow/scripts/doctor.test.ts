import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';
import { startEmbeddedRedis, type EmbeddedRedisOptions } from '../../../sandbox/redis/embedded-redis.ts';
import { makeSigningKey } from '../../../sandbox/loopback/certificates.ts';
import type { Finding } from '../../../scripts/doctor/check.ts';
import { commandsOnCluster, commandsUsed, keyPatterns } from '../../../scripts/doctor/permissions.ts';
import { main } from '../../../scripts/doctor.ts';
import { noteLoss } from '../../../src/queue/losses.ts';
import { runMain } from '../../support/command.ts';
import { temporaryFolder } from '../../support/program.ts';
import { connectRedis, queueEnv, testPrefix } from '../../support/redis.ts';
import { openReplicaBench } from '../../support/replica.ts';
import { openSandbox } from '../../support/sandbox.ts';
import { openSentinelGroup } from '../../support/redis-sentinel.ts';
import { runOnTerminal } from '../../support/terminal.ts';

type Env = Readonly<Record<string, string | undefined>>;

interface Examined {
  readonly code: number;
  readonly ok: boolean;
  readonly faults: number;
  readonly warnings: number;
  readonly findings: readonly Finding[];
  /** `fault redis eviction: maxmemory-policy is …`, in the order of the output; those that are ok are left out. */
  readonly wrong: readonly string[];
}

async function doctor(env: Env, ...flags: string[]): Promise<Examined> {
  const { code, stdout, stderr } = await runMain(main, [...flags, '--json'], { ALLOW_NO_CREDENTIALS: 'true', ...env });
  expect(stderr).toBe('');
  const answer = JSON.parse(stdout) as Omit<Examined, 'code' | 'wrong'>;
  const wrong = answer.findings.filter(({ result }) => result !== 'ok');
  expect(wrong.every(({ advice = '' }) => advice.length > 10)).toBe(true); // each says what to do
  expect({ code, ok: answer.ok }).toEqual(answer.faults === 0 ? { code: 0, ok: true } : { code: 1, ok: false });
  return { ...answer, code, wrong: wrong.map(({ result, check, text }) => `${result} ${check}: ${text}`) };
}

async function openRedis(...extraArgs: string[]): Promise<string> {
  const options: EmbeddedRedisOptions = { appendonly: true, extraArgs };
  const server = await startEmbeddedRedis(options);
  onTestFinished(() => server.close());
  return server.url;
}

const like = (...patterns: RegExp[]) => patterns.map((pattern) => expect.stringMatching(pattern) as string);

test('where all is as it should be, each line is ok, and the dry run alerts nobody', async () => {
  const sandbox = await openSandbox();
  const folder = await temporaryFolder();
  const appsFile = join(folder, 'apps.json');
  const {
    APNS_KEY_FILE: keyFile,
    APNS_KEY_ID: keyId,
    APNS_TEAM_ID: teamId,
    APNS_TOPIC: topic,
    APNS_CA_FILE: caFile,
  } = sandbox.env();
  const apns = { keyFile, keyId, teamId, topic, caFile, endpoint: sandbox.env()['APNS_ENDPOINT'] };
  await writeFile(appsFile, JSON.stringify({ apps: { teacher: { apns } } }));
  const env = { ...sandbox.env(), APPS_FILE: appsFile, REDIS_URL: await openRedis(), QUEUE_PREFIX: testPrefix() };
  const quiet = await doctor(env);
  expect(quiet).toMatchObject({ code: 0, faults: 0, warnings: 0, wrong: [] });
  const checks = quiet.findings.map(({ check }) => check);
  expect(checks).toEqual(
    expect.arrayContaining(['redis eviction', 'redis commands', 'fcm', 'apns of teacher', 'webpush']),
  );
  expect(checks.filter((check) => check.includes('dry run'))).toEqual([]);
  expect(sandbox.journal.all).toEqual([]); // nothing was sent

  const tried = await doctor(env, '--send-dry-run');
  expect(tried.wrong).toEqual([]);
  expect(tried.findings.filter(({ check }) => check.includes('dry run')).map(({ check }) => check)).toEqual([
    'apns dry run',
    'fcm dry run',
    'apns of teacher dry run',
  ]);
  expect(sandbox.journal.accepted).toEqual([]);

  const without = await doctor({ ...env, FCM_ENDPOINT: '', FCM_PROJECT_ID: '', GOOGLE_APPLICATION_CREDENTIALS: '' });
  expect(without.wrong).toEqual([]);
  expect(without.findings).toContainEqual({
    ...{ check: 'credentials', result: 'ok', text: 'none for fcm: this worker sends nothing there' },
  });

  const { code, lines } = await runOnTerminal({ command: 'node scripts/doctor.ts', columns: 80, env });
  expect(code).toBe(0);
  expect(lines.filter((line) => line.length > 80)).toEqual([]);
  expect(lines.at(-1)).toBe('no fault: a worker can start');
});

test('a worker without credentials starts only where that is allowed', async () => {
  const REDIS_URL = await openRedis();
  const { wrong, findings, code } = await doctor({ REDIS_URL, ALLOW_NO_CREDENTIALS: undefined });
  expect(wrong).toEqual(like(/^fault variables: expected credentials of APNs, FCM or web push .* found none$/));
  expect(findings.map(({ check }) => check)).toContain('redis'); // it goes on
  expect(code).toBe(1);
  const allowed = await doctor({ REDIS_URL });
  expect(allowed).toMatchObject({
    code: 0,
    wrong: like(/^warning providers: no platform has credentials: .*sends nothing/),
  });
});

test('settings of Redis that are not what pushpacer needs', async () => {
  const bad = ['--maxmemory', '1mb', '--maxmemory-policy', 'allkeys-lru', '--hz', '10', '--appendfsync', 'no'];
  const { wrong } = await doctor({ REDIS_URL: await openRedis(...bad) });
  expect(wrong).toEqual(
    like(
      /^fault redis eviction: maxmemory-policy is allkeys-lru: /,
      /^fault redis memory: .* used of maxmemory 1\.0 MB$/,
      /^warning redis persistence: appendfsync is no/,
      /^warning redis hz: hz is 10: /,
      /^warning providers: no platform has credentials/,
    ),
  );
  const none = await startEmbeddedRedis({ extraArgs: ['--maxmemory-policy', 'volatile-ttl'] });
  onTestFinished(() => none.close());
  expect((await doctor({ REDIS_URL: none.url })).wrong).toEqual(
    like(
      /^warning redis eviction: .* it has no maxmemory now$/,
      /^warning redis persistence: .* no append-only file and makes no snapshots: if it ends, all is lost/,
      /./,
    ),
  );
});

test('what Redis evicted under another policy, and what workers noticed that it lost', async () => {
  const url = await openRedis('--maxmemory-policy', 'allkeys-lru');
  const [admin, prefix] = [connectRedis(url), testPrefix()];
  for (let at = 0; at < 100; at++) await admin.set(`filler-${at}`, 'x'.repeat(10_000));
  await admin.config('SET', 'maxmemory', '1500000');
  await vi.waitFor(async () => expect(await admin.dbsize()).toBeLessThan(100));
  await admin.config('SET', 'maxmemory', '0');
  await admin.config('SET', 'maxmemory-policy', 'noeviction');
  await noteLoss(admin, prefix, {
    ...{ redis: 'queue', kind: 'emptied', at: Date.now() - 3_600_000 },
    server: { runId: 'a', isSame: true },
  });
  const { wrong, code } = await doctor({ REDIS_URL: url, QUEUE_PREFIX: prefix });
  expect(code).toBe(0);
  expect(wrong).toEqual(
    like(
      /^warning redis eviction: maxmemory-policy noeviction, but it evicted \d+ keys? since its start/,
      /^warning losses: Redis was emptied \(its keys were deleted\), 1h ago: .* are lost$/,
      /^warning providers: /,
    ),
  );
});

test('a Redis with snapshots, and how far away it is', async () => {
  const server = await startEmbeddedRedis({ extraArgs: ['--save', '3600 1'] });
  onTestFinished(() => server.close());
  const { wrong, findings } = await doctor({ REDIS_URL: server.url });
  expect(wrong).toEqual(
    expect.arrayContaining(like(/persistence: .*: if it ends, all since its last snapshot is lost/)),
  );
  const text = findings.find(({ check }) => check === 'redis')?.text;
  expect(Number(/ answers in (\d+(?:\.\d)?)ms: /.exec(text ?? '')?.[1])).toBeGreaterThan(0);
});

test('a user without some rights: which ones, and a CONFIG that is forbidden is a warning only', async () => {
  const url = await openRedis();
  const [admin, prefix] = [connectRedis(url), testPrefix()];
  const env = { REDIS_URL: url.replace('//', '//app:s3cret@'), QUEUE_PREFIX: prefix };
  const allow = (keys: readonly string[], ...commands: string[]) =>
    admin.call(
      'ACL',
      'SETUSER',
      'app',
      'reset',
      'on',
      '>s3cret',
      '-@all',
      ...keys,
      ...commands.map((each) => `+${each}`),
    );
  const all = commandsUsed(['queue', 'limiter']);

  await allow(keyPatterns(prefix), ...all);
  expect((await doctor(env)).wrong).toEqual(
    like(/^warning redis persistence: .* CONFIG GET, so appendfsync is not/, /./),
  );
  await allow(keyPatterns(prefix), ...all.filter((name) => !['zadd', 'bzpopmin', 'client|setname'].includes(name)));
  const lacks = await doctor(env);
  expect(lacks.wrong[1]).toBe('fault redis commands: the user of this URL may not call bzpopmin, client|setname, zadd');
  expect(lacks.findings.find(({ check }) => check === 'redis commands')?.advice).toContain(
    '+bzpopmin +client|setname +zadd',
  );
  await allow(keyPatterns('{another}'), ...all);
  expect((await doctor(env)).wrong.join('\n')).toContain(`may not use keys such as ${prefix}:notifications:`);
  await allow(keyPatterns(prefix), ...all.filter((name) => !['multi', 'info'].includes(name)));
  const without = (await doctor(env)).wrong;
  expect(without[0]).toMatch(/^warning redis: .* does not let its user call INFO$/);
  expect(without).toContain('fault redis commands: the user of this URL may not call multi');
  expect(await admin.keys('*')).toEqual([]); // what was tried was not carried out
});

test('the user of docs/redis.md may do all that is needed', async () => {
  const url = await openRedis();
  const [, shell = ''] = /```sh\nredis-cli (ACL SETUSER [^`]*)```/.exec(await readFile('docs/redis.md', 'utf8')) ?? [];
  const words = shell.replaceAll('\\\n', ' ').replaceAll("'", '').trim().split(/\s+/);
  expect(words.filter((word) => word.startsWith('+'))).toEqual(
    commandsUsed(['queue', 'limiter']).map((name) => `+${name}`),
  );
  expect(words.filter((word) => word.startsWith('~'))).toEqual(keyPatterns('{pushpacer}'));
  const [command = '', ...args] = words;
  await connectRedis(url).call(command, ...args);
  expect((await doctor({ REDIS_URL: url.replace('//', '//pushpacer:PASSWORD@') })).faults).toBe(0);
});

test('a Redis that is away, asks for another password, or is a replica or a node of a cluster', async () => {
  const url = await openRedis();
  await connectRedis(url).config('SET', 'requirepass', 's3cret-of-redis');
  const refused = await runMain(main, [], {
    REDIS_URL: url.replace('//', '//:wr0ng-one@'),
    LIMITER_REDIS_URL: 'redis://127.0.0.1:1',
  });
  expect(refused).toMatchObject({ code: 1, stderr: '' });
  expect(refused.stdout).toMatch(
    /^fault +redis +Redis refuses the credentials: .*WRONGPASS.*\n +do: correct the user/m,
  );
  expect(refused.stdout).toMatch(/^fault +limiter +Redis is away: 127\.0\.0\.1:1 /m);
  expect(refused.stdout).toMatch(/\n3 faults: do not start a worker like this\n$/);
  expect(refused.stdout).not.toMatch(/s3cret|wr0ng/);

  const [master, replica] = [await openRedis(), await openRedis()];
  await connectRedis(replica).replicaof('127.0.0.1', new URL(master).port);
  expect((await doctor({ REDIS_URL: replica })).wrong[0]).toMatch(/^fault redis role: it is a replica/);

  const cluster = await openRedis('--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1');
  const node = connectRedis(cluster);
  expect((await doctor({ REDIS_URL: cluster })).wrong[0]).toMatch(/^fault redis role: it is a node of a cluster/);
  await node.cluster('ADDSLOTSRANGE', 0, 16_383);
  await vi.waitFor(async () => expect(await node.cluster('INFO')).toContain('cluster_state:ok'), 10_000);
  const allowed = commandsOnCluster(['queue', 'limiter']).map((name) => `+${name}`);
  await node.call(
    'ACL',
    'SETUSER',
    'app',
    'on',
    '>s3cret',
    '-@all',
    ...keyPatterns('{pushpacer}'),
    ...allowed,
    '+config|get',
  );
  const asApp = cluster.replace('//', '//app:s3cret@');
  const whole = await doctor({ REDIS_URL: asApp, REDIS_CLUSTER: 'true', QUEUE_SHARDS: '3' });
  expect(await node.call('ACL', 'LOG')).toEqual([]);
  expect(whole.wrong).toEqual(like(/^warning providers/));
  expect(whole.findings.map(({ check }) => check)).toEqual(expect.arrayContaining(['redis cluster', 'redis commands']));
});

test('by Sentinels: the master, and that nothing bounds what a failover loses', async () => {
  const { env } = await openSentinelGroup();
  const { wrong, findings } = await doctor(env);
  expect(findings.find(({ check }) => check === 'redis role')?.text).toBe('a master, as the Sentinels say of mymaster');
  expect(wrong).toEqual(
    expect.arrayContaining(like(/^warning redis replicas: 1 keep up; min-replicas-to-write is not set/)),
  );
  const waiting = await doctor({ ...env, REDIS_WAIT_REPLICAS: '1' });
  expect(waiting.findings.find(({ check }) => check === 'redis wait')).toMatchObject({ result: 'ok' });
  expect((await doctor({ ...env, REDIS_WAIT_REPLICAS: '2' })).wrong).toEqual(
    expect.arrayContaining(like(/^warning redis wait: REDIS_WAIT_REPLICAS is 2, and 1 are connected: nothing is sent/)),
  );
});

test("a clock that is not Redis's", async () => {
  const url = await openRedis();
  const real = Date.now.bind(Date);
  const clock = vi.spyOn(Date, 'now');
  onTestFinished(() => clock.mockRestore());
  clock.mockImplementation(() => real() + 5_000);
  expect((await doctor({ REDIS_URL: url })).wrong[0]).toMatch(
    /^warning redis clock: .* [45](\.\d)?s ahead of Redis's$/,
  );
  clock.mockImplementation(() => real() - 3_600_000);
  expect((await doctor({ REDIS_URL: url })).wrong[0]).toMatch(/^fault redis clock: .* (1h|59m \d+s) behind Redis's; /);
});

test('all faults of the environment and of its files at once, and what can be looked at beside them', async () => {
  const sandbox = await openSandbox();
  const folder = await temporaryFolder();
  const [limits, apps, account] = ['limits.json', 'apps.json', 'account.json'].map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  await writeFile(limits, '{ "categories": { "news": { "rules": "0/1h" } } }');
  await writeFile(apps, '{ "apps": { "teacher": { "apns": { "keyFile": "none.p8" } } } }');
  await writeFile(account, '{ "private_key": "s3cret-key" }');
  const env = {
    ...{ ...sandbox.env(), REDIS_URL: await openRedis(), LIMIT_RULE: '1/1s', APNS_TOPICS: 'x', ATTEMPTS: 's3ven' },
    ...{ LIMITS_FILE: limits, APPS_FILE: apps, GOOGLE_APPLICATION_CREDENTIALS: account, APNS_CA_FILE: '/none/ca.pem' },
  };
  const { wrong, findings } = await doctor(env);
  const text = wrong.join('\n');
  for (const name of ['ATTEMPTS', 'news', 'teacher', 'GOOGLE_APPLICATION_CREDENTIALS', 'APNS_CA_FILE']) {
    expect(
      wrong.some((line) => line.startsWith('fault variables: ') && line.includes(name)),
      name,
    ).toBe(true);
  }
  expect(text).toContain(
    'fault variables: LIMIT_RULE: expected no such variable (did you mean LIMIT_RULES?), found one',
  );
  expect(text).toContain('warning variables: APNS_TOPICS is not known; did you mean APNS_TOPIC?');
  expect(text).not.toContain('LIMIT_RULE is not known');
  expect(JSON.stringify(findings)).not.toContain('s3cret');
  expect(findings.map(({ check }) => check)).toContain('webpush'); // that one has no fault
});

test('a key that the provider does not take shows with a dry run only; a server that is not reached, always', async () => {
  const sandbox = await openSandbox();
  const keyFile = join(await temporaryFolder(), 'other.p8');
  await writeFile(keyFile, await makeSigningKey());
  const env = { ...sandbox.env(), REDIS_URL: await openRedis() };
  const otherKey = { ...env, APNS_KEY_FILE: keyFile, FCM_PROJECT_ID: 'another-project' };
  expect((await doctor(otherKey)).wrong).toEqual([]);
  const { wrong } = await doctor(otherKey, '--send-dry-run');
  expect(wrong).toEqual(like(/^fault apns dry run: InvalidProviderToken/, /^fault fcm dry run: .*PERMISSION_DENIED/));
  expect(JSON.stringify(wrong)).not.toContain((await readFile(keyFile, 'utf8')).split('\n')[1]);

  const unreached = { ...env, APNS_ENDPOINT: 'https://127.0.0.1:1', FCM_CA_FILE: undefined };
  expect((await doctor(unreached)).wrong).toEqual(
    like(/^fault apns: 127\.0\.0\.1:1: connection-refused/, /^fault fcm: .*: tls-failed/),
  );
});

test('other limits than those of the workers that run, and a stop that is too short', async () => {
  const bench = await openReplicaBench();
  await bench.startHere();
  const env = { ...bench.sandbox.env(), ...queueEnv(bench.prefix) };
  expect((await doctor(env)).findings.find(({ check }) => check === 'workers')?.text).toMatch(
    /^1 worker alive, with the same/,
  );
  const { wrong } = await doctor({ ...env, LIMIT_RULES: '5/1m', SHUTDOWN_GRACE: '2s' });
  expect(wrong).toEqual(
    expect.arrayContaining(
      like(/^warning stop: SHUTDOWN_GRACE 2s is shorter/, /^warning workers: 1 worker of 1 has other limits/),
    ),
  );
});
