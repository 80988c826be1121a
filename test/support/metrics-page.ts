import { readFile } from 'node:fs/promises';

/** A line of the tables in docs/metrics.md. */
export interface DocumentedMetric {
  readonly name: string;
  readonly type: string;
  readonly labels: readonly string[];
  /** A PromQL expression. */
  readonly ask?: string;
}

const LINE = /^\| `(pushpacer_\w+)` +\| (\w+) +\| ([^|]*) \| [^|]+ \| `([^|`]+)` +\|$/gm;

/** Every metric of the page. */
export async function documentedMetrics(): Promise<DocumentedMetric[]> {
  const page = await readFile('docs/metrics.md', 'utf8');
  return [...page.matchAll(LINE)].map(([, name = '', type = '', labels = '', ask = '']) => ({
    ...{ name, type, ask },
    labels: [...labels.matchAll(/`(\w+)`/g)].map(([, label = '']) => label),
  }));
}
