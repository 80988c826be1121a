import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { loadApiConfig, loadConfig, loadConsoleConfig } from '../../../src/config/config.ts';
import { parseDuration } from '../../../src/domain/time.ts';
import { CHART, helm } from '../../../tools/helm.ts';
import { deployments, manifestsOf, referenceFaults } from '../../support/kubernetes.ts';
import type { Container, Manifest, Values } from '../../support/kubernetes.ts';
import { temporaryFolder } from '../../support/program.ts';
import { fieldFaults, schemaFaults } from './kubernetes-schemas.ts';

const RULES = await readFile('deploy/prometheus/pushpacer.rules.yml', 'utf8');

/** Values by the name of what they are for. */
const VALUES: Readonly<Record<string, Values>> = {
  defaults: {},
  'the least': {
    ...{ envSecret: '', filesSecret: '', replicas: 1, env: { REDIS_URL: 'redis://redis:6379' } },
    podDisruptionBudget: { enabled: false },
    networkPolicy: { enabled: false },
  },
  everything: {
    image: { repository: 'registry.example.com/team/pushpacer', tag: '0.1.0', pullPolicy: 'Always' },
    ...{ imagePullSecrets: ['registry'], fullnameOverride: 'push', priorityClassName: 'high' },
    env: { WORKER_CONCURRENCY: '100', OUTCOMES_MAX: '100000000', SHUTDOWN_GRACE: '2m', OTEL_SERVICE_NAME: 'push' },
    limits: { categories: { homework: { rules: '10000/1h' } } },
    ...{ podAnnotations: { a: '1' }, podLabels: { team: 'push' }, nodeSelector: { disk: 'ssd' } },
    tolerations: [{ key: 'push', operator: 'Exists', effect: 'NoSchedule' }],
    affinity: { podAntiAffinity: {} },
    podDisruptionBudget: { maxUnavailable: '25%' },
    networkPolicy: {
      redis: { ports: [6380], to: [{ ipBlock: { cidr: '10.1.0.0/16' } }] },
      extraEgress: [{ to: [{ podSelector: { matchLabels: { app: 'collector' } } }], ports: [{ port: 4318 }] }],
    },
    serviceMonitor: { enabled: true, labels: { release: 'prometheus' } },
    prometheusRule: { enabled: true, rules: RULES, labels: { release: 'prometheus' } },
    keda: { enabled: true, dueJobsPerReplica: 1_000_000 },
    serve: { enabled: true, replicas: 2, env: { CONSOLE_READ_ONLY: 'true', API_MAX_WAITING: '5' } },
  },
  'serve with TLS': {
    networkPolicy: { enabled: false },
    serve: { enabled: true, env: { API_TLS_CERT_FILE: '/run/secrets/cert', API_TLS_KEY_FILE: '/run/secrets/key' } },
  },
};

async function valuesFile(values: Values): Promise<string> {
  const file = join(await temporaryFolder(), 'values.yaml');
  await writeFile(file, stringify(values));
  return file;
}

async function render(values: Values): Promise<Manifest[]> {
  return manifestsOf(await helm('template', 'pushpacer', CHART, '--values', await valuesFile(values)));
}

describe('the chart', () => {
  test.each(Object.keys(VALUES))('with %s is what Kubernetes takes', async (name) => {
    const values = VALUES[name] ?? {};
    expect(await helm('lint', '--strict', CHART, '--values', await valuesFile(values))).toContain('0 chart(s) failed');
    const manifests = await render(values);
    expect(manifests.length).toBeGreaterThan(1);
    expect(schemaFaults(manifests)).toEqual([]);
    expect(fieldFaults(manifests)).toEqual([]);
    expect(referenceFaults(manifests)).toEqual([]);
  });

  test('has every object with everything on', async () => {
    const manifests = await render(VALUES['everything'] ?? {});
    expect(manifests.map(({ kind }) => kind).toSorted()).toEqual([
      ...['ConfigMap', 'Deployment', 'Deployment', 'NetworkPolicy', 'NetworkPolicy', 'PodDisruptionBudget'],
      ...['PrometheusRule', 'ScaledObject', 'Service', 'Service', 'ServiceMonitor'],
    ]);
  });

  test('gives workers, the API and the console an environment that they take', async () => {
    const manifests = await render(VALUES['everything'] ?? {});
    const [serve, worker] = deployments(manifests).toSorted((a, b) => (a.metadata.name < b.metadata.name ? -1 : 1));
    const [map] = manifests.filter(({ kind }) => kind === 'ConfigMap') as unknown as { data: Record<string, string> }[];
    const limits = join(await temporaryFolder(), 'limits.json');
    await writeFile(limits, map?.data['limits.json'] ?? '');
    const envOf = ({ env }: Container): Record<string, string> =>
      Object.fromEntries(env.map(({ name, value }) => [name, name === 'LIMITS_FILE' ? limits : value]));
    expect(loadConfig({ ...envOf(worker?.container as Container), ALLOW_NO_CREDENTIALS: 'true' })).toMatchObject({
      ...{ concurrency: 100, outcomesMax: 100_000_000, shutdownGraceMs: 120_000 },
      categories: { homework: { rules: [{ max: 10_000, perMs: 3_600_000 }] } },
      metrics: { host: '0.0.0.0', port: 9464 },
    });
    const served = envOf(serve?.container as Container);
    expect(loadApiConfig(served).api).toMatchObject({
      ...{ host: '0.0.0.0', port: 8620, maxWaiting: 5, tokensFile: '/run/secrets/api-tokens.json' },
    });
    expect(loadConsoleConfig(served).console).toMatchObject({ host: '0.0.0.0', port: 8621, readOnly: true });
  });

  test.each(['0', '1ms', '1500ms', '45s', '2m', '1h', '1d'])('gives a pod 20 s more than %s', async (grace) => {
    const [worker] = deployments(await render({ env: { SHUTDOWN_GRACE: grace } }));
    const seconds = Math.ceil((parseDuration(grace) ?? NaN) / 1_000);
    expect(worker?.pod.terminationGracePeriodSeconds).toBe(seconds + 20);
  });

  test.each([
    ['a variable that nothing reads', { env: { LIMIT_RULE: '10/1m' } }, /LIMIT_RULE'? (is )?not allowed/],
    [
      'no Redis',
      { envSecret: '' },
      'env.REDIS_URL: expected the URL of your Redis, or envSecret with it, found neither',
    ],
    [
      'limits twice',
      { limits: { categories: {} }, env: { LIMITS_FILE: '/l' } },
      'env.LIMITS_FILE: expected it to be absent',
    ],
    ['no alert rules', { prometheusRule: { enabled: true } }, 'prometheusRule.rules: expected the text of'],
    [
      'other alert rules',
      { prometheusRule: { enabled: true, rules: 'a: 1' } },
      'prometheusRule.rules: expected YAML with',
    ],
    [
      'fewer than the fewest',
      { keda: { enabled: true, minReplicas: 9 } },
      /expected keda.minReplicas \(9\) or more, found 6/,
    ],
  ])('is not rendered with %s, and says why', async (_, values, expected) => {
    await expect(render(values)).rejects.toMatchObject({ stderr: expect.stringMatching(expected) as string });
  });
});

test('the plain manifests are the chart with its defaults', async () => {
  await promisify(execFile)('node', ['tools/manifests.ts', '--check']);
});

test('a misspelled field, and what Kubernetes does not take, would be found out', async () => {
  const [worker] = deployments(await render({}));
  const changed = (right: string, wrong: string) => manifestsOf(JSON.stringify(worker).replace(right, wrong));
  expect(schemaFaults(changed('"limits":{"memory":"512Mi"}', '"limits":[]')).join()).toContain('limits must be object');
  expect(fieldFaults(changed('"readOnlyRootFilesystem"', '"readonlyRootFilesystem"')).join()).toContain(
    `'"readonlyRootFilesystem"' does not exist in type`,
  );
});
