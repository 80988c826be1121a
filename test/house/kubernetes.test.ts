import { globSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { API_VARIABLES, CONFIG_VARIABLES, CONSOLE_VARIABLES } from '../../src/config/variables.ts';
import { parseDuration } from '../../src/domain/time.ts';
import { deployments, manifestsOf, referenceFaults } from '../support/kubernetes.ts';
import { valueFaults, valuesSchema, type Values } from '../support/kubernetes.ts';
import { commandAt, dockerfile } from './compose.ts';

const { version } = JSON.parse(await readFile('package.json', 'utf8')) as { version: string };
const FOLDER = 'deploy/kubernetes/manifests';
const { resources } = parse(await readFile(`${FOLDER}/kustomization.yaml`, 'utf8')) as { resources: readonly string[] };
const manifests = manifestsOf(
  (await Promise.all(resources.map((file) => readFile(`${FOLDER}/${file}`, 'utf8')))).join('---\n'),
);

const namesOf = (...lists: (readonly { readonly name: string }[])[]): string[] => lists.flat().map(({ name }) => name);

describe("the chart's values", () => {
  /** They hold a secret and nothing else: only a Secret may have them. */
  const SECRETS = ['REDIS_SENTINEL_PASSWORD', 'APNS_KEY', 'WEBPUSH_VAPID_PRIVATE_KEY'];
  /** The chart sets them. */
  const SET = ['API_HOST', 'API_PORT', 'API_TOKENS_FILE', 'CONSOLE_HOST', 'CONSOLE_PORT'];

  test('name every variable of a worker, of the API and of the console, and no other', () => {
    const { env, serve } = valuesSchema.properties;
    expect([...Object.keys(env.properties), ...SECRETS].toSorted()).toEqual(namesOf(CONFIG_VARIABLES).toSorted());
    const served = (serve.properties['env'] as { properties: object }).properties;
    const known = new Set(namesOf(API_VARIABLES, CONSOLE_VARIABLES));
    expect([...Object.keys(served), ...SET].toSorted()).toEqual([...known].toSorted());
  });

  test('may be the default of each variable', () => {
    const defaults = CONFIG_VARIABLES.filter((variable) => variable.default !== undefined);
    expect(defaults.length).toBeGreaterThan(20);
    const env = Object.fromEntries(defaults.map((variable) => [variable.name, variable.default]));
    expect(valueFaults({ env })).toEqual([]);
  });

  test.each<[what: string, values: Values, fault: string]>([
    ['a variable that nothing reads', { env: { LIMIT_RULE: '1/1m' } }, 'NOT have additional properties: LIMIT_RULE'],
    ['a secret', { env: { APNS_KEY: 'pem' } }, 'must NOT have additional properties: APNS_KEY'],
    ['a password', { env: { REDIS_URL: 'redis://:secret@redis:6379' } }, 'env/REDIS_URL must match pattern'],
    ['a number without quotes', { env: { WORKER_CONCURRENCY: 50 } }, 'env/WORKER_CONCURRENCY must be string'],
    ['a grace without a unit', { env: { SHUTDOWN_GRACE: '10' } }, 'env/SHUTDOWN_GRACE must match pattern'],
    ['no grace', { env: { SHUTDOWN_GRACE: null } }, "env must have required property 'SHUTDOWN_GRACE'"],
    ['metrics that are off', { env: { METRICS_PORT: 'off' } }, 'env/METRICS_PORT must match pattern'],
    ['rules in other words', { env: { LIMIT_RULES: '10 per minute' } }, 'env/LIMIT_RULES must match pattern'],
    ['a relative path', { env: { APNS_KEY_FILE: 'key.p8' } }, 'env/APNS_KEY_FILE must match pattern'],
    ['no worker', { replicas: 0 }, 'replicas must be >= 1'],
    ['scaling to no worker', { keda: { minReplicas: 0 } }, 'keda/minReplicas must be >= 1'],
    ['scaling by what waits', { keda: { query: 'x{state="delayed"}' } }, 'keda/query must NOT be valid'],
    ['a budget that lets no node drain', { podDisruptionBudget: { maxUnavailable: 0 } }, 'maxUnavailable must be >= 1'],
    ['a console for everybody', { serve: { env: { CONSOLE_LOGIN: 'false' } } }, 'must be equal to constant'],
  ])('refuse %s', (_, values, expected) => {
    expect(valueFaults(values).join('\n')).toContain(expected);
  });

  test('of the page are valid', async () => {
    const page = await readFile('docs/kubernetes.md', 'utf8');
    const blocks = [...page.matchAll(/^ *```yaml\n([^]*?)^ *```/gm)].map(([, text = '']) => parse(text) as Values);
    const values = blocks.filter((block) => block['kind'] === undefined);
    expect(values).toHaveLength(2);
    expect(values.flatMap((each) => valueFaults(each))).toEqual([]);
  });

  test('are released with the program', async () => {
    const chart = parse(await readFile('deploy/kubernetes/chart/Chart.yaml', 'utf8')) as object;
    expect(chart).toMatchObject({ name: 'pushpacer', version, appVersion: version });
  });
});

describe('the plain manifests', () => {
  const [worker] = deployments(manifests);
  if (worker === undefined) throw new Error('no Deployment');
  const { spec, pod, container } = worker;

  test('are all in the kustomization, and lead nowhere but to each other', () => {
    expect(manifests.map(({ kind }) => kind).toSorted()).toEqual(
      ['Deployment', 'NetworkPolicy', 'PodDisruptionBudget', 'Service'].toSorted(),
    );
    expect(globSync('*.yaml', { cwd: FOLDER }).toSorted()).toEqual(['kustomization.yaml', ...resources].toSorted());
    expect(referenceFaults(manifests)).toEqual([]);
  });

  test('run the image as it is, with the rights of nobody', () => {
    expect(container.image).toBe(`pushpacer:${version}`);
    expect(container.command).toEqual(commandAt(/^CMD (.*)$/m));
    expect(dockerfile).toMatch(/^USER node$/m); // uid 1000 in Node's images
    expect(pod).toMatchObject({
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      securityContext: {
        ...{ runAsNonRoot: true, runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000 },
        seccompProfile: { type: 'RuntimeDefault' },
      },
    });
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    });
    expect(container.volumeMounts).toEqual([{ name: 'files', mountPath: '/run/secrets', readOnly: true }]);
  });

  test('give a worker variables that it knows, and more time to end than it takes', () => {
    const env = Object.fromEntries(container.env.map(({ name, value }) => [name, value]));
    expect(Object.keys(env).filter((name) => !namesOf(CONFIG_VARIABLES).includes(name))).toEqual([]);
    const graceMs = parseDuration(env['SHUTDOWN_GRACE'] ?? '') ?? Infinity;
    expect(pod.terminationGracePeriodSeconds * 1_000).toBeGreaterThan(graceMs);
    expect(container.ports).toEqual([{ name: 'metrics', containerPort: Number(env['METRICS_PORT']) }]);
    expect(spec.replicas).toBeGreaterThan(1);
  });

  test('wait longer for the first answer than a worker waits for Redis', () => {
    expect(
      (container.startupProbe?.periodSeconds ?? 0) * (container.startupProbe?.failureThreshold ?? 0),
    ).toBeGreaterThan(35);
    expect(container.livenessProbe.httpGet.path).toBe('/healthz');
    expect(container.readinessProbe.httpGet.path).toBe('/readyz');
  });
});
