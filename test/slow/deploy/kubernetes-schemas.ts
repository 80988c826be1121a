import { ScaledObject } from '@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject';
import { PrometheusRule } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PrometheusRule';
import { ServiceMonitor } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor';
import { Deployment } from 'kubernetes-models/apps/v1/Deployment';
import { NetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1/NetworkPolicy';
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1/PodDisruptionBudget';
import { ConfigMap } from 'kubernetes-models/v1/ConfigMap';
import { Service } from 'kubernetes-models/v1/Service';
import type { Manifest } from '../../support/kubernetes.ts';
import { strictFaultsIn } from '../../support/strict-typescript.ts';

interface Model {
  validate(): void;
}

/** The kinds that the chart has: the class that knows each one's schema, and where its type is. */
const KINDS: Readonly<Record<string, readonly [model: new (data: never) => Model, module: string]>> = {
  Deployment: [Deployment, 'kubernetes-models/apps/v1/Deployment'],
  NetworkPolicy: [NetworkPolicy, 'kubernetes-models/networking.k8s.io/v1/NetworkPolicy'],
  PodDisruptionBudget: [PodDisruptionBudget, 'kubernetes-models/policy/v1/PodDisruptionBudget'],
  ConfigMap: [ConfigMap, 'kubernetes-models/v1/ConfigMap'],
  Service: [Service, 'kubernetes-models/v1/Service'],
  ScaledObject: [ScaledObject, '@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject'],
  ServiceMonitor: [ServiceMonitor, '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor'],
  PrometheusRule: [PrometheusRule, '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PrometheusRule'],
};

/** What the schema of each object's kind finds, and its API version. Names that the schema does not know are not found by it. */
export function schemaFaults(manifests: readonly Manifest[]): string[] {
  return manifests.flatMap((manifest) => {
    const [Known] = KINDS[manifest.kind] ?? [];
    if (Known === undefined) return [`${manifest.kind}: expected one of ${Object.keys(KINDS).join(', ')}`];
    try {
      new Known(manifest as never).validate();
      return [];
    } catch (error) {
      return [`${manifest.kind} ${manifest.metadata.name}: ${(error as Error).message}`];
    }
  });
}

/** Names of fields that no schema has: TypeScript finds them, for it lets no literal have more fields than its type. Takes seconds. */
export function fieldFaults(manifests: readonly Manifest[]): string[] {
  const codes = manifests.map((manifest) => {
    const [, module = ''] = KINDS[manifest.kind] ?? [];
    return (
      `import type { I${manifest.kind} } from '${module}';\n` +
      `export const manifest: I${manifest.kind} = ${JSON.stringify(manifest)};\n`
    );
  });
  return [...new Set(strictFaultsIn(import.meta.dirname, ...codes).map((line) => line.replace(/^.*?\): /, '')))];
}
