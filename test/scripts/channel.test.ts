import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, test } from 'vitest';
import { main as channel } from '../../scripts/channel.ts';
import { createAudit } from '../../src/operations/audit.ts';
import { createChannelManager } from '../../src/providers/apns/channels.ts';
import type { SandboxOptions } from '../../sandbox/sandbox.ts';
import { apnsOptions } from '../support/providers.ts';
import { jsonOf, outputOf, runMain, type CommandExit } from '../support/command.ts';
import { temporaryFolder } from '../support/program.ts';
import { connectRedis, queueEnv, testPrefix } from '../support/redis.ts';
import { openSandbox } from '../support/sandbox.ts';

/** A sandbox, and the command with its environment. */
async function open(options: SandboxOptions = {}) {
  const sandbox = await openSandbox(options);
  const prefix = testPrefix();
  const env: Readonly<Record<string, string | undefined>> = { ...sandbox.env(), ...queueEnv(prefix) };
  const run = (
    args: readonly string[],
    more: Readonly<Record<string, string | undefined>> = {},
  ): Promise<CommandExit> => runMain(channel, args, { ...env, ...more });
  const audit = () => createAudit(connectRedis(), prefix).read({ count: 10 });
  return { sandbox, run, audit, env };
}

const bundleId = 'dev.pushpacer.sandbox';
const UNKNOWN = 'AAAAAAAAAAAAAAAAAAAAAA==';

describe('channel', () => {
  it('creates, shows, lists and deletes, and the audit has what was changed', async () => {
    const { sandbox, run, audit } = await open();
    const id = (await outputOf(run(['create']))).trim();
    const kept = await jsonOf<{ id: string }>(run(['create', '--storage', 'most-recent', '--json']));
    expect(kept).toEqual({ id: expect.any(String) as string, storage: 'most-recent', bundleId });
    expect(sandbox.apns.channels().ids).toEqual([id, kept.id]);
    expect(await outputOf(run(['list']))).toBe(`${id}\n${kept.id}\n`);
    expect(await jsonOf(run(['list', '--json']))).toEqual({ channels: [id, kept.id], bundleId });
    expect(await outputOf(run(['show', id]))).toBe(`${id} of ${bundleId} keeps nothing for phones that are offline\n`);
    expect(await outputOf(run(['delete', id, '--yes']))).toBe(`deleted ${id}\n`);
    expect(await jsonOf(run(['delete', kept.id, '--yes', '--json']))).toEqual({ id: kept.id, deleted: true, bundleId });
    expect(await outputOf(run(['list']))).toBe('no channels\n');
    const who = expect.stringMatching(/ \(terminal\)$/) as string;
    expect(await audit()).toMatchObject([
      { who, action: 'channel delete', on: kept.id, facts: { bundleId } },
      { who, action: 'channel delete', on: id, facts: { bundleId } },
      { who, action: 'channel create', on: kept.id, facts: { bundleId, storage: 'most-recent' } },
      { who, action: 'channel create', on: id, facts: { bundleId, storage: 'none' } },
    ]);
  });

  it('deletes nothing without a yes', async () => {
    const { sandbox, run } = await open();
    const id = (await outputOf(run(['create']))).trim();
    expect(await run(['delete', id])).toMatchObject({
      code: 2,
      stderr: 'error: there is no terminal to ask on: add --yes to delete the channel without a question\n',
    });
    expect(sandbox.apns.channels().ids).toEqual([id]);
  });

  it('says what APNs refuses, and what to do', async () => {
    const { sandbox, run, audit } = await open({ apnsMaxChannels: 0 });
    const refused = async (...args: string[]) => {
      const { code, stdout, stderr } = await run(args);
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      return stderr;
    };
    expect(await refused('create')).toBe(
      'error: APNs refuses it: 400 CannotCreateChannelConfig: the app has as many channels as Apple allows; delete those that have ended\n',
    );
    const none = `${bundleId} has no channel ${UNKNOWN} in this environment\n`;
    expect(await refused('show', UNKNOWN)).toBe(`error: APNs refuses it: 400 BadChannelId: ${none}`);
    expect(await refused('delete', UNKNOWN, '--yes')).toBe(`error: APNs refuses it: 404 BadPath: ${none}`);
    sandbox.apns.revokeKey();
    expect(await refused('list')).toMatch(/^error: APNs refuses it: 403 InvalidProviderToken: check APNS_KEY_FILE/);
    expect(await audit()).toEqual([]);
  });

  it('is done for one of several apps', async () => {
    const { sandbox, run, env } = await open();
    const file = join(await temporaryFolder(), 'apps.json');
    const apns = {
      ...{ keyFile: env['APNS_KEY_FILE'], keyId: env['APNS_KEY_ID'], teamId: env['APNS_TEAM_ID'], topic: bundleId },
      ...{
        endpoint: env['APNS_ENDPOINT'],
        channelsEndpoint: env['APNS_CHANNELS_ENDPOINT'],
        caFile: env['APNS_CA_FILE'],
      },
    };
    await writeFile(file, JSON.stringify({ apps: { teacher: { apns } } }));
    const alone = {
      APPS_FILE: file,
      ...Object.fromEntries(
        Object.keys(env)
          .filter((name) => name.startsWith('APNS_'))
          .map((name) => [name, '']),
      ),
    };
    const id = (await outputOf(run(['create', '--app', 'teacher'], alone))).trim();
    expect(sandbox.apns.channels().ids).toEqual([id]);
    expect(await run(['list', '--app', 'parent'], alone)).toMatchObject({
      code: 2,
      stderr: 'error: --app: expected an app of APPS_FILE with credentials of APNs, found "parent"\n',
    });
    expect(await run(['list'], alone)).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('APNs has no credentials') as string,
    });
  });

  it('changes nothing where Redis is away, since the audit could not note it', async () => {
    const { sandbox, run } = await open();
    const exit = await run(['create'], { REDIS_URL: 'redis://:s3cret@127.0.0.1:1' });
    expect(exit).toMatchObject({ code: 1, stdout: '' });
    expect(exit.stderr).toMatch(/^error: Redis is away/);
    expect(sandbox.apns.channels().ids).toEqual([]);
    expect((await run(['list'], { REDIS_URL: 'redis://127.0.0.1:1' })).code).toBe(0);
  });

  test.each<[string, readonly string[], Readonly<Record<string, string>>, number, string]>([
    ['no id', ['delete', 'a b', '--yes'], {}, 2, "ID: expected a channel's id: 1 to 256 characters of base64"],
    ['another storage', ['create', '--storage', 'all'], {}, 2, "argument 'all' is invalid"],
    ['an address that is none', ['list'], { APNS_CHANNELS_ENDPOINT: 'http://u:s3cret@a' }, 1, 'APNS_CHANNELS_ENDPOINT'],
    ['no address', ['list'], { APNS_CHANNELS_ENDPOINT: '' }, 1, 'APNS_CHANNELS_ENDPOINT: expected the address'],
    ['nobody there', ['list'], { APNS_CHANNELS_ENDPOINT: 'https://127.0.0.1:1' }, 1, '127.0.0.1:1: connection-refused'],
  ])('says what is wrong: %s', async (_, args, more, code, words) => {
    const { run } = await open();
    const exit = await run(args, more);
    expect(exit).toMatchObject({ code, stdout: '' });
    expect(exit.stderr).toContain(words);
    expect(exit.stderr).not.toContain('s3cret');
  });
});

test.each([
  ['https://api.push.apple.com', 'api-manage-broadcast.push.apple.com:2196'],
  ['https://api.sandbox.push.apple.com', 'api-manage-broadcast.sandbox.push.apple.com:2195'],
  ['https://api.push.apple.com:2197', 'api-manage-broadcast.push.apple.com:2196'],
])('where pushes go to %s, channels are managed at %s', async (endpoint, host) => {
  const manager = createChannelManager({ ...(await apnsOptions(await openSandbox())), endpoint });
  expect(manager.host).toBe(host);
  await manager.close();
});

test('all channels that Apple allows are listed', async () => {
  const sandbox = await openSandbox();
  const ids = Array.from({ length: 10_000 }, () => sandbox.apns.channels().create(0));
  const manager = createChannelManager({
    ...(await apnsOptions(sandbox)),
    channelsEndpoint: sandbox.apns.channelsUrl,
  });
  expect(await manager.list()).toEqual({ kind: 'done', value: ids });
  await manager.close();
});
