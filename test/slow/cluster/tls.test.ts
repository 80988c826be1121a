import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import tls from 'node:tls';
import { generate } from 'selfsigned';
import { expect, onTestFinished, test } from 'vitest';
import { startEmbeddedCluster, type EmbeddedCluster } from '../../../sandbox/redis/embedded-cluster.ts';
import { commandsOnCluster, keyPatterns } from '../../../scripts/doctor/permissions.ts';
import { NO_FAILOVER } from '../../support/cluster.ts';
import { doEverything } from '../../support/everything.ts';
import { startProcess } from '../../support/process.ts';
import { temporaryFolder } from '../../support/program.ts';
import { openSandbox } from '../../support/providers.ts';
import { connectRedis } from '../../support/redis.ts';

const PREFIX = '{pushpacer}';
const [USER, PASSWORD, OF_DEFAULT] = ['pushpacer', 's3cret', 'of-the-default-user'];

async function openTlsCluster(): Promise<{ readonly cluster: EmbeddedCluster; readonly caFile: string; ca: string }> {
  const folder = await temporaryFolder();
  const keys = { keyType: 'ec', curve: 'P-256', algorithm: 'sha256' } as const;
  const ca = await generate([{ name: 'commonName', value: 'CA of a Redis Cluster' }], {
    ...keys,
    extensions: [
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
    ],
  });
  const made = await generate([{ name: 'commonName', value: '127.0.0.1' }], {
    ...{ ...keys, ca: { key: ca.private, cert: ca.cert } },
    extensions: [
      { name: 'extKeyUsage', serverAuth: true, clientAuth: true },
      { name: 'subjectAltName', altNames: [{ type: 7, ip: '127.0.0.1' }] },
    ],
  });
  const [caFile, certFile, keyFile] = ['ca.pem', 'cert.pem', 'key.pem'].map((name) => join(folder, name));
  const files = { caFile: caFile ?? '', certFile: certFile ?? '', keyFile: keyFile ?? '' };
  await Promise.all([
    writeFile(files.caFile, ca.cert),
    writeFile(files.certFile, made.cert),
    writeFile(files.keyFile, made.private, { mode: 0o600 }),
  ]);
  const cluster = await startEmbeddedCluster({ tls: files, ...NO_FAILOVER });
  onTestFinished(() => cluster.close());
  return { cluster, caFile: files.caFile, ca: ca.cert };
}

test('with TLS, a password, and no more rights than docs/redis.md lists, everything works on a cluster', async () => {
  const { cluster, caFile, ca } = await openTlsCluster();
  const rights = commandsOnCluster(['queue', 'limiter']).map((name) => `+${name}`);
  const rules = [...keyPatterns(PREFIX), 'resetchannels', '-@all', ...rights];
  const admins = cluster.nodes.map(({ url }) => connectRedis(url));
  for (const admin of admins) {
    await admin.call('ACL', 'SETUSER', USER, 'on', `>${PASSWORD}`, 'resetkeys', ...rules);
    await admin.config('SET', 'masterauth', OF_DEFAULT);
    await admin.config('SET', 'requirepass', OF_DEFAULT);
  }
  const url = cluster.url.replaceAll('//', `//${USER}:${PASSWORD}@`);
  expect(url).toMatch(/^rediss:/);
  const env = { REDIS_URL: url, REDIS_CLUSTER: 'true', QUEUE_PREFIX: PREFIX, QUEUE_SHARDS: '4' };

  // This process, which a variable would have to tell before its start.
  const before = tls.getCACertificates('default');
  tls.setDefaultCACertificates([...before, ca]);
  onTestFinished(() => tls.setDefaultCACertificates(before));
  await doEverything({ env, target: { redisUrl: url, cluster: true, prefix: PREFIX, shards: 4 } });
  for (const admin of admins) {
    const refused = (await admin.call('ACL', 'LOG')) as unknown[][];
    // Only `doctor` asks for the configuration, and says less where it may not.
    expect(refused.filter((entry) => !entry.includes('config|get'))).toEqual([]);
  }

  const sandbox = await openSandbox();
  const start = (more: Readonly<Record<string, string | undefined>>) =>
    startProcess({ args: ['workers/notifications.ts'], env: { ...sandbox.env(), ...env, METRICS_PORT: '0', ...more } });
  const trusting = start({ NODE_EXTRA_CA_CERTS: caFile });
  await trusting.waitForLine(/"msg":"ready"/);
  const wary = start({ NODE_EXTRA_CA_CERTS: undefined });
  const { code, stdout, stderr } = await wary.waitForExit();
  expect(code).toBe(1);
  expect(stdout + stderr).toMatch(/certificate of 127\.0\.0\.1:\d+ is not trusted .*NODE_EXTRA_CA_CERTS/);
  trusting.kill();
  expect((await trusting.waitForExit()).code).toBe(0);
}, 300_000);
