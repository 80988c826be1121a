import { access, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { CONFIG_VARIABLES } from '../../src/config/variables.ts';
import { portFlag, SERVER_NAMES, variableOf } from '../../scripts/sandbox.ts';
import { startEmbeddedRedis } from '../../sandbox/redis/embedded-redis.ts';
import { startProcess } from '../support/process.ts';
import { temporaryFolder } from '../support/program.ts';
import { dockerfile, services, volumes, workerEnv, type Service } from './compose.ts';

const ROOT = process.cwd();
const sandboxEnv = new Map(
  (await readFile('examples/sandbox.env', 'utf8')).split('\n').flatMap((line): [string, string][] => {
    const [, name, value] = /^([A-Z_]+)=(.*)$/.exec(line) ?? [];
    return name === undefined || value === undefined ? [] : [[name, value]];
  }),
);

describe('the compose file', () => {
  test('hands a worker every variable that there is, with its default, and no other', () => {
    const theirs = { REDIS_URL: 'redis://redis:6379', METRICS_HOST: '0.0.0.0' };
    const ours = Object.fromEntries(CONFIG_VARIABLES.map((variable) => [variable.name, variable.default]));
    // Compose would end a default at the first brace of this one, so the worker's own default is used.
    expect(Object.keys(services.worker.environment ?? {}).toSorted()).toEqual(Object.keys(ours).toSorted());
    expect(workerEnv()).toEqual({ ...ours, ...theirs, QUEUE_PREFIX: undefined });
    for (const [name, value] of Object.entries(services.worker.environment ?? {})) {
      if (value !== null) expect(value).toMatch(new RegExp(`^\\$\\{${name}:-`));
    }
  });

  test('lets workers be many', () => {
    expect(services.worker.ports).toBeUndefined();
    expect(services.worker.container_name).toBeUndefined();
    expect(services.worker.expose).toEqual([workerEnv()['METRICS_PORT']]);
    expect(dockerfile).toContain(`EXPOSE ${workerEnv()['METRICS_PORT'] ?? ''}\n`);
  });

  test('stops a worker later than the worker stops itself', () => {
    expect(services.worker.stop_grace_period).toBe('30s');
    expect(workerEnv()['SHUTDOWN_GRACE']).toBe('10s');
  });

  test('names only volumes that it declares, and waits only for services with a health check', () => {
    const named = Object.values(services).flatMap((service: Service) =>
      (service.volumes ?? []).map((volume) => volume.replace(/^\$\{.*\}/, './').split(':')[0] ?? ''),
    );
    expect(new Set(named.filter((name) => !name.startsWith('.')))).toEqual(new Set(Object.keys(volumes)));
    for (const [name, { condition }] of Object.entries(services.worker.depends_on ?? {})) {
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
    expect(Object.fromEntries(sandboxEnv)).toEqual(
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
    const read = async (file: string): Promise<unknown> => parse(await readFile(join(provisioning, file), 'utf8'));
    const { datasources } = (await read('datasources/prometheus.yml')) as { datasources: { url: string }[] };
    expect(datasources.map(({ url }) => url)).toEqual(['http://prometheus:9090']);
    const { providers } = (await read('dashboards/pushpacer.yml')) as { providers: { options: { path: string } }[] };
    const home = grafana.environment?.['GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH'] ?? '';
    expect(providers.map(({ options }) => options.path)).toEqual([dirname(home)]);
    const dashboard = JSON.parse(await readFile(files.get(home) ?? '', 'utf8')) as { title: string };
    expect(dashboard.title).not.toBe('');
  });
});

describe('the image', () => {
  test('is built from files that are there, and that are not ignored', async () => {
    const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.*) \S+$/gm)].flatMap(([, files = '']) =>
      files.split(' '),
    );
    const kept = (await readFile('.dockerignore', 'utf8')).split('\n').filter((line) => line.startsWith('!'));
    expect(new Set(copied)).toEqual(new Set(kept.map((line) => line.slice(1))));
    for (const file of copied) await access(join(ROOT, file));
    expect(dockerfile).toMatch(/^USER node$/m);
  });
});
