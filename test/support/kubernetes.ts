import { readFile } from 'node:fs/promises';
import addFormats from 'ajv-formats';
import { Ajv, type ErrorObject } from 'ajv';
import { parse, parseAllDocuments } from 'yaml';

/** An object of Kubernetes, as its YAML has it. */
export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels?: Readonly<Record<string, string>> };
}

/** All objects of a text, read as Kubernetes reads YAML: 0440 is octal, and `yes` is true. */
export function manifestsOf(text: string): Manifest[] {
  const documents = parseAllDocuments(text, { version: '1.1', uniqueKeys: true });
  const faults = documents.flatMap(({ errors, warnings }) => [...errors, ...warnings]);
  if (faults[0] !== undefined) throw faults[0];
  return documents.map((document) => document.toJS() as Manifest);
}

/** A container of a Deployment, as far as tests look at it. */
export interface Container {
  readonly image: string;
  readonly command: readonly string[];
  readonly env: readonly { readonly name: string; readonly value: string }[];
  readonly envFrom?: readonly { readonly secretRef: { readonly name: string } }[];
  readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string; readonly readOnly?: boolean }[];
  readonly securityContext: unknown;
  readonly startupProbe?: Probe;
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe;
}

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
  readonly periodSeconds: number;
  readonly failureThreshold: number;
}

export interface Pod {
  readonly terminationGracePeriodSeconds: number;
  readonly securityContext: unknown;
  readonly automountServiceAccountToken: boolean;
  readonly enableServiceLinks: boolean;
  readonly containers: readonly [Container];
  readonly volumes?: readonly { readonly name: string; readonly configMap?: { readonly name: string } }[];
}

interface Spec {
  readonly replicas?: number;
  readonly selector: { readonly matchLabels: Labels };
  readonly template: { readonly metadata: { readonly labels: Labels }; readonly spec: Pod };
}
type Labels = Readonly<Record<string, string>>;

export function deployments(
  manifests: readonly Manifest[],
): (Manifest & { readonly spec: Spec; readonly pod: Pod; readonly container: Container })[] {
  return manifests
    .filter(({ kind }) => kind === 'Deployment')
    .map((manifest) => {
      const { spec } = manifest as Manifest & { readonly spec: Spec };
      return { ...manifest, spec, pod: spec.template.spec, container: spec.template.spec.containers[0] };
    });
}

/** What one object names in another, and which is not there: pods, ports, volumes, targets. */
export function referenceFaults(manifests: readonly Manifest[]): string[] {
  const workloads = deployments(manifests);
  const faults: string[] = [];
  const expectTrue = (isSo: boolean, { kind, metadata }: Manifest, what: string): void => {
    if (!isSo) faults.push(`${kind} ${metadata.name}: ${what}`);
  };
  const chosen = (selector: Labels): typeof workloads =>
    workloads.filter(({ spec }) => has(spec.template.metadata.labels, selector));
  const portNames = (selector: Labels): string[] =>
    chosen(selector).flatMap(({ container }) => container.ports.map(({ name }) => name));
  for (const workload of workloads) {
    const { spec, pod, container } = workload;
    expectTrue(
      chosen(spec.selector.matchLabels)[0]?.metadata.name === workload.metadata.name,
      workload,
      'selects others',
    );
    expectTrue(chosen(spec.selector.matchLabels).length === 1, workload, 'selects pods of another Deployment');
    const volumes = (pod.volumes ?? []).map(({ name }) => name);
    const mounts = (container.volumeMounts ?? []).map(({ name }) => name);
    expectTrue(volumes.join() === mounts.join(), workload, `volumes ${volumes.join()}, mounts ${mounts.join()}`);
    for (const { configMap } of pod.volumes ?? []) {
      const isThere = manifests.some(({ kind, metadata }) => kind === 'ConfigMap' && metadata.name === configMap?.name);
      expectTrue(configMap === undefined || isThere, workload, `no ConfigMap ${configMap?.name ?? ''}`);
    }
    for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe'] as const) {
      const port = container[probe]?.httpGet.port;
      const names = container.ports.map(({ name }) => name);
      expectTrue(port === undefined || names.includes(port), workload, `${probe}: no port ${port ?? ''}`);
    }
  }
  for (const manifest of manifests) {
    const { spec } = manifest as unknown as { spec: Readonly<Record<string, unknown>> };
    if (manifest.kind === 'Service') {
      const { selector, ports } = spec as { selector: Labels; ports: readonly { targetPort: string }[] };
      for (const { targetPort } of ports) {
        expectTrue(portNames(selector).includes(targetPort), manifest, `no port ${targetPort}`);
      }
    } else if (manifest.kind === 'NetworkPolicy') {
      const { podSelector, ingress } = spec as {
        podSelector: { matchLabels: Labels };
        ingress: readonly { ports: readonly { port: string }[] }[];
      };
      for (const { port } of ingress.flatMap(({ ports }) => ports)) {
        expectTrue(portNames(podSelector.matchLabels).includes(port), manifest, `no port ${port}`);
      }
    } else if (manifest.kind === 'PodDisruptionBudget') {
      const { selector } = spec as { selector: { matchLabels: Labels } };
      expectTrue(chosen(selector.matchLabels).length === 1, manifest, 'selects no Deployment');
    } else if (manifest.kind === 'ServiceMonitor') {
      const { selector, endpoints } = spec as {
        selector: { matchLabels: Labels };
        endpoints: readonly { port: string }[];
      };
      const services = manifests.filter(
        ({ kind, metadata }) => kind === 'Service' && has(metadata.labels ?? {}, selector.matchLabels),
      ) as unknown as { spec: { ports: readonly { name: string }[] } }[];
      const names = services.flatMap((service) => service.spec.ports.map(({ name }) => name));
      expectTrue(names.join() === endpoints.map(({ port }) => port).join(), manifest, `services have ${names.join()}`);
    } else if (manifest.kind === 'ScaledObject') {
      const { scaleTargetRef } = spec as { scaleTargetRef: { name: string } };
      const target = workloads.find(({ metadata }) => metadata.name === scaleTargetRef.name);
      expectTrue(target !== undefined, manifest, `no Deployment ${scaleTargetRef.name}`);
      expectTrue(target?.spec.replicas === undefined, manifest, 'its Deployment sets replicas too');
    }
  }
  return faults;
}

function has(labels: Labels, wanted: Labels): boolean {
  return Object.entries(wanted).every(([name, value]) => labels[name] === value);
}

const CHART = 'deploy/kubernetes/chart';

/** The schema of the chart's values, as Helm reads it, and its defaults. */
export const valuesSchema = JSON.parse(await readFile(`${CHART}/values.schema.json`, 'utf8')) as {
  readonly properties: Readonly<Record<'env' | 'serve', { readonly properties: Readonly<Record<string, unknown>> }>>;
};
const defaultValues = parse(await readFile(`${CHART}/values.yaml`, 'utf8')) as Values;
export type Values = Readonly<Record<string, unknown>>;

const ajv = new Ajv({
  allErrors: true,
  strict: true,
  allowUnionTypes: true,
  allowMatchingProperties: true,
  strictTypes: false,
});
addFormats.default(ajv);
const validate = ajv.compile(valuesSchema);

/** What the schema finds in values that are laid over the defaults, as Helm lays them: `env/SHUTDOWN_GRACE must match …`. */
export function valueFaults(values: Values): string[] {
  void validate(merged(defaultValues, values));
  const errors: readonly ErrorObject[] = validate.errors ?? [];
  return errors.map(({ instancePath, message = '', params }) => {
    const { additionalProperty } = params as { additionalProperty?: string };
    return `${instancePath.slice(1)} ${message}${additionalProperty === undefined ? '' : `: ${additionalProperty}`}`;
  });
}

function merged(below: unknown, above: unknown): unknown {
  if (!isMap(below) || !isMap(above)) return above;
  const names = [...new Set([...Object.keys(below), ...Object.keys(above)])].filter((name) => above[name] !== null);
  return Object.fromEntries(
    names.map((name) => [name, name in above ? merged(below[name], above[name]) : below[name]]),
  );
}

function isMap(value: unknown): value is Values {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
