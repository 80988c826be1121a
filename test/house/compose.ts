import { readFile } from 'node:fs/promises';
import { parse } from 'yaml';

export interface Service {
  readonly image?: string;
  readonly profiles?: readonly string[];
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string | null>>;
  readonly volumes?: readonly string[];
  readonly expose?: readonly string[];
  readonly ports?: unknown;
  readonly container_name?: unknown;
  readonly depends_on?: Readonly<Record<string, { readonly condition: string; readonly required?: boolean }>>;
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly stop_grace_period?: string;
}

export const dockerfile = await readFile('Dockerfile', 'utf8');

/** docker-compose.yml, as far as tests look at it. */
export const { services, volumes } = parse(await readFile('docker-compose.yml', 'utf8')) as {
  services: Readonly<Record<'redis' | 'worker' | 'sandbox' | 'prometheus' | 'grafana', Service>>;
  volumes: Readonly<Record<string, unknown>>;
};

/** What a line of the Dockerfile runs: `["node", "dist/…"]`. */
export function commandAt(line: RegExp): string[] {
  return JSON.parse(line.exec(dockerfile)?.[1] ?? '[]') as string[];
}

/** The environment of a worker as compose makes it, where nobody has set a variable. */
export function workerEnv(): Record<string, string | undefined> {
  return Object.fromEntries(
    Object.entries(services.worker.environment ?? {}).map(([name, value]) => [
      name,
      value === null ? undefined : value.replace(/^\$\{[A-Z0-9_]+:-(.*)\}$/, '$1'),
    ]),
  );
}
