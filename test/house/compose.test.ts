import { globSync } from 'node:fs';
import { access, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { loadApiConfig, loadConfig, loadConsoleConfig } from '../../src/config/config.ts';
import { API_VARIABLES, CONFIG_VARIABLES, CONSOLE_VARIABLES } from '../../src/config/variables.ts';
import { portFlag, SERVER_NAMES, variableOf } from '../../scripts/sandbox.ts';
import { freePort, startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { startProcess } from '../support/process.ts';
import { temporaryFolder } from '../support/program.ts';
import { testPrefix, testRedisUrl } from '../support/redis.ts';
import { dockerfile, environmentOf, healthCheckOf, sandboxEnv, services, volumes, type Service } from './compose.ts';

const ROOT = process.cwd();
const workerEnv = environmentOf(services.worker);

describe('the compose file', () => {
  test('hands a worker every variable that there is, with its default, and no other', () => {
    const theirs = { REDIS_URL: 'redis://redis:6379', METRICS_HOST: '0.0.0.0' };
    const ours = Object.fromEntries(CONFIG_VARIABLES.map((variable) => [variable.name, variable.default]));
    // Compose would end a default at the first brace of this one, so the worker's own default is used.
    expect(Object.keys(services.worker.environment ?? {}).toSorted()).toEqual(Object.keys(ours).toSorted());
    expect(workerEnv).toEqual({ ...ours, ...theirs, QUEUE_PREFIX: undefined });
    for (const [name, value] of Object.entries(services.worker.environment ?? {})) {
      if (value !== null) expect(value).toMatch(new RegExp(`^\\$\\{${name}:-`));
    }
  });

  test('lets workers be many, and stops one later than it stops itself', () => {
    expect(services.worker.ports).toBeUndefined();
    expect(services.worker.container_name).toBeUndefined();
    expect(services.worker.expose).toEqual([workerEnv['METRICS_PORT']]);
    expect(dockerfile).toContain(`EXPOSE ${workerEnv['METRICS_PORT'] ?? ''}\n`);
    expect([services.worker.stop_grace_period, workerEnv['SHUTDOWN_GRACE']]).toEqual(['30s', '10s']);
  });

  test('names only volumes that it declares, and waits only for services with a health check', () => {
    const named = Object.values(services).flatMap((service: Service) =>
      (service.volumes ?? []).map((volume) => volume.replace(/^\$\{.*\}/, './').split(':')[0] ?? ''),
    );
    expect(new Set(named.filter((name) => !name.startsWith('.')))).toEqual(new Set(Object.keys(volumes)));
    for (const [name, { condition }] of Object.values(services).flatMap((service: Service) =>
      Object.entries(service.depends_on ?? {}),
    )) {
      expect(condition).toBe('service_healthy');
      expect(services[name as keyof typeof services].healthcheck?.test[0]).toBe('CMD');
    }
    expect(services.worker.depends_on?.['sandbox']?.required).toBe(false);
  });

  test('starts Redis with options that a Redis takes', async () => {
    const [program = '', ...args] = services.redis.command ?? [];
    expect(args).toEqual(expect.arrayContaining(['--hz', '100', '--maxmemory-policy', 'noeviction']));
    expect(program).toBe('redis-server');
    const redis = await startEmbeddedRedis({ extraArgs: args });
    await redis.close();
  });

  test('has a sandbox where its environment says', async () => {
    const [node, script = '', ...flags] = services.sandbox.command ?? [];
    expect(node).toBe('node');
    const folder = await temporaryFolder();
    const args = flags.map((flag) => flag.replace('/sandbox', folder).replace(/port=\d+/, 'port=0'));
    const source = script.replace(/^dist\/(.*)\.js$/, '$1.ts');
    const sandbox = startProcess({ args: [source, ...args, '--json'] });
    const printed = JSON.parse(await sandbox.waitForLine(/^\{/)) as Record<string, string>;
    const exposed = services.sandbox.expose ?? [];
    expect(exposed).toHaveLength(SERVER_NAMES.length);
    const ports = SERVER_NAMES.map((name, index) => `${portFlag(name)}=${exposed[index]}`);
    expect(flags).toEqual(expect.arrayContaining([...ports, '--name=sandbox', '--control-host=0.0.0.0']));
    const control = exposed.at(-1) ?? '';
    expect(services.sandbox.ports).toEqual([`127.0.0.1:\${SANDBOX_PORT:-${control}}:${control}`]); // this machine only
    const portOf = (variable: string) => exposed[SERVER_NAMES.findIndex((name) => variableOf(name) === variable)];
    expect(sandboxEnv).toEqual(
      Object.fromEntries(
        Object.entries(printed).map(([name, value]) => [
          name,
          value.replace(folder, '/sandbox').replace(/^(https?:\/\/sandbox):\d+$/, `$1:${portOf(name)}`),
        ]),
      ),
    );
    sandbox.kill('SIGTERM');
    expect(await sandbox.waitForExit()).toMatchObject({ code: 0 });
  });
});

describe.each([
  ['api', API_VARIABLES, loadApiConfig, ['API_PORT', 'API_TLS_CERT_FILE', 'API_TLS_KEY_FILE']],
  [
    'console',
    CONSOLE_VARIABLES,
    loadConsoleConfig,
    ['CONSOLE_LOGIN', 'CONSOLE_PORT', 'CONSOLE_TLS_CERT_FILE', 'CONSOLE_TLS_KEY_FILE'],
  ],
] as const)('the service `%s`', (name, variables, load, notHere) => {
  const service: Service = services[name];

  test('is for this machine alone, has a profile of its own, and the tokens', () => {
    const port = `${name.toUpperCase()}_PORT`;
    const inside = variables.find((variable) => variable.name === port)?.default ?? '';
    expect(service.ports).toEqual([`127.0.0.1:\${${port}:-${inside}}:${inside}`]);
    expect(service.profiles).toEqual([name]);
    const file = service.environment?.['API_TOKENS_FILE'] ?? '';
    expect(service.volumes).toContain(`tokens:${dirname(file)}${name === 'api' ? '' : ':ro'}`);
    expect(dockerfile).toMatch(new RegExp(`chown node:node .*${dirname(file)}\\b`));
  });

  test('has every variable that it reads and that a container needs, and those of the workers with their values', () => {
    const read = new Set<string>();
    load(
      new Proxy(
        {},
        {
          get: (_, variable: string) => {
            read.add(variable);
            return undefined;
          },
        },
      ),
    );
    const { environment = {} } = service;
    expect([...Object.keys(environment), ...notHere].toSorted()).toEqual([...read].toSorted());
    const set = { API_HOST: '0.0.0.0', CONSOLE_HOST: '0.0.0.0', API_TOKENS_FILE: '/tokens/api-tokens.json' };
    for (const [variable, value] of Object.entries(environment)) {
      const own = variables.find((each) => each.name === variable);
      const expected =
        own === undefined
          ? services.worker.environment?.[variable]
          : ((set as Record<string, string>)[variable] ?? `\${${variable}:-${own.default ?? ''}}`);
      expect([variable, value]).toEqual([variable, expected]);
    }
  });
});

test('the API starts with its environment, beyond its loopback, is healthy, and stops', async () => {
  const port = String(await freePort());
  const env = {
    ...environmentOf(services.api),
    ...{ REDIS_URL: testRedisUrl(), QUEUE_PREFIX: testPrefix(), API_PORT: port },
    API_TOKENS_FILE: join(await temporaryFolder(), 'api-tokens.json'),
  };
  const atSources = (args: readonly string[]) => args.map((arg) => arg.replace(/^dist\/(.*)\.js$/, '$1.ts'));
  const [node, ...args] = atSources(services.api.command ?? []);
  const program = startProcess({ args, env });
  const { url } = JSON.parse(await program.waitForLine(/the API is ready/)) as { url: string };
  expect([node, url]).toEqual(['node', `http://0.0.0.0:${port}`]);
  const [runner, ...check] = healthCheckOf(services.api).map((arg) => arg.replace(/:86\d\d\//, `:${port}/`));
  expect(await startProcess({ args: check, env }).waitForExit()).toMatchObject({ code: 0, stderr: '' });
  program.kill('SIGTERM');
  expect(await program.waitForExit()).toMatchObject({ code: 0 });
  expect(await startProcess({ args: check, env }).waitForExit()).toMatchObject({ code: 1 });
  expect(runner).toBe('node');
});

test('a worker and the console take their environment, and listen beyond their loopback', () => {
  const given = { ALLOW_NO_CREDENTIALS: 'true' };
  expect(loadConfig({ ...environmentOf(services.worker), ...given }).metrics).toMatchObject({ host: '0.0.0.0' });
  expect(loadConsoleConfig(environmentOf(services.console)).console).toMatchObject({ host: '0.0.0.0' });
});

describe('the profile `monitoring`', () => {
  const { prometheus, grafana, worker } = services;
  /** The files of the repository that a service sees, by their path there. */
  const mounts = ({ volumes: list = [] }: Service): Map<string, string> =>
    new Map(
      list.filter((each) => each.startsWith('./')).map((each) => [each.split(':')[1] ?? '', each.split(':')[0] ?? '']),
    );

  test('is for this machine alone, and its programs are of one version each', () => {
    for (const [service, port] of [
      [prometheus, '9090'],
      [grafana, '3000'],
    ] as const) {
      expect(service.profiles).toEqual(['monitoring']);
      expect(service.image).toMatch(/:v?\d+\.\d+\.\d+$/);
      expect(service.ports).toEqual([expect.stringMatching(`^127\\.0\\.0\\.1:\\$\\{[A-Z]+_PORT:-${port}\\}:${port}$`)]);
      for (const volume of service.volumes ?? []) if (volume.startsWith('.')) expect(volume).toMatch(/:ro$/);
    }
  });

  test('has Prometheus look at every worker, by rules that are there', async () => {
    const folder = mounts(prometheus).get('/etc/prometheus') ?? '';
    const config = parse(await readFile(join(folder, 'prometheus.yml'), 'utf8')) as {
      rule_files: string[];
      scrape_configs: { job_name: string; dns_sd_configs: { names: string[]; type: string; port: number }[] }[];
    };
    for (const file of config.rule_files) await access(join(folder, file));
    const lookUps = config.scrape_configs.flatMap((scrape) => scrape.dns_sd_configs);
    expect(lookUps).toEqual([
      expect.objectContaining({ names: ['worker'], type: 'A', port: Number(worker.expose?.[0]) }),
    ]);
  });

  test('gives Grafana that Prometheus, and the dashboard', async () => {
    const files = mounts(grafana);
    const provisioning = files.get('/etc/grafana/provisioning') ?? '';
    const read = (file: string): Promise<string> => readFile(join(provisioning, file), 'utf8');
    const home = grafana.environment?.['GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH'] ?? '';
    expect(parse(await read('datasources/prometheus.yml'))).toMatchObject({
      datasources: [{ url: 'http://prometheus:9090' }],
    });
    expect(parse(await read('dashboards/pushpacer.yml'))).toMatchObject({
      providers: [{ options: { path: dirname(home) } }],
    });
    await access(files.get(home) ?? '');
  });
});

describe('the image', () => {
  test('is built from files that are there, and that are not ignored', async () => {
    const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.*) \S+$/gm)].flatMap(([, files = '']) =>
      files.split(' '),
    );
    const kept = (await readFile('.dockerignore', 'utf8')).split('\n').filter((line) => line.startsWith('!'));
    expect(new Set(copied)).toEqual(new Set(kept.map((line) => line.slice(1))));
    for (const file of copied) expect(globSync(file, { cwd: ROOT })).not.toEqual([]);
    expect(dockerfile).toMatch(/^USER node$/m);
  });
});
