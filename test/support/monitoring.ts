import { readFile } from 'node:fs/promises';
import { parse } from 'yaml';

/** What deploy/prometheus and deploy/grafana have, as far as tests look at it. */

export const RULES = 'deploy/prometheus/pushpacer.rules.yml';
export const RULE_TESTS = 'deploy/prometheus/pushpacer.rules.test.yml';
export const SCRAPE_CONFIG = 'deploy/prometheus/prometheus.yml';
export const DASHBOARD = 'deploy/grafana/pushpacer.json';

export interface AlertRule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
}

export interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly datasource?: unknown;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string } };
  readonly targets?: readonly { readonly expr: string; readonly datasource: unknown }[];
}

export interface Dashboard {
  readonly panels: readonly Panel[];
  readonly templating: { readonly list: readonly { readonly name: string; readonly query: unknown }[] };
  readonly annotations: { readonly list: readonly { readonly expr?: string }[] };
}

export const readYaml = async <T>(file: string): Promise<T> => parse(await readFile(file, 'utf8')) as T;

export async function readAlerts(): Promise<readonly AlertRule[]> {
  const { groups } = await readYaml<{ groups: { rules: AlertRule[] }[] }>(RULES);
  return groups.flatMap(({ rules }) => rules);
}

export async function readDashboard(): Promise<Dashboard> {
  return JSON.parse(await readFile(DASHBOARD, 'utf8')) as Dashboard;
}

/** A query of a panel as Grafana would send it, for the only job there is and a window of five minutes. */
export const withVariables = (expr: string): string =>
  expr.replaceAll('$job', 'pushpacer').replaceAll('$__rate_interval', '5m');

/** The selectors of what workers serve in an expression: `pushpacer_dead_letters{reason!="unregistered"}`. */
export function selectorsOf(expr: string): string[] {
  const selectors = /\b(?:pushpacer|nodejs|process)_\w+(?:\{[^}]*\})?/g;
  return [...expr.matchAll(selectors)].map(([selector]) => selector);
}

/** The names of the metrics in an expression, a histogram's without `_bucket`. */
export const namesIn = (expr: string): string[] =>
  selectorsOf(expr).map((selector) =>
    selector.replace(/\{.*/s, '').replace(/_seconds_(?:bucket|count|sum)$/, '_seconds'),
  );
