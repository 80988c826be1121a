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
export const { services, volumes } = composeOf(await readFile('docker-compose.yml', 'utf8'));

interface Compose {
  readonly services: Readonly<
    Record<'redis' | 'worker' | 'sandbox' | 'api' | 'console' | 'prometheus' | 'grafana', Service>
  >;
  readonly volumes: Readonly<Record<string, unknown>>;
}

/** Read as Compose reads it: `<<` merges, and a name that comes twice is an error. */
export function composeOf(text: string): Compose {
  return parse(text, { merge: true }) as Compose;
}

/** What a line of the Dockerfile runs: `["node", "dist/…"]`. */
export function commandAt(line: RegExp): string[] {
  return JSON.parse(line.exec(dockerfile)?.[1] ?? '[]') as string[];
}

/** The program and flags of a health check, without its `CMD`. */
export function healthCheckOf({ healthcheck }: Service): string[] {
  const [kind, ...command] = healthcheck?.test ?? [];
  if (kind !== undefined && kind !== 'CMD') throw new Error(`expected CMD, found ${kind}`);
  return kind === undefined ? commandAt(/^HEALTHCHECK .*CMD (.*)$/m) : command;
}

/** The environment of a service as compose makes it of what is in the shell or in .env; a variable without a value is absent. */
export function environmentOf(
  { environment = {} }: Service,
  given: Readonly<Record<string, string>> = {},
): Record<string, string | undefined> {
  return Object.fromEntries(
    Object.entries(environment).map(([name, value]) => [name, value === null ? given[name] : filledIn(value, given)]),
  );
}

/** A text of the compose file with its variables: `${NAME:-default}`. */
function filledIn(text: string, given: Readonly<Record<string, string>>): string {
  return text.replaceAll(
    /\$\{([A-Z0-9_]+):-([^}]*)\}/g,
    (_, name: string, otherwise: string) => given[name] || otherwise,
  );
}

/** examples/sandbox.env */
export const sandboxEnv: Readonly<Record<string, string>> = Object.fromEntries(
  [...(await readFile('examples/sandbox.env', 'utf8')).matchAll(/^([A-Z_]+)=(.*)$/gm)].map(
    ([, name = '', value = '']) => [name, value],
  ),
);
