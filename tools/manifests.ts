import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { format, resolveConfig } from 'prettier';
import { CHART, helm } from './helm.ts';

const FOLDER = 'deploy/kubernetes/manifests';
const HEAD = '# Made from deploy/kubernetes/chart by tools/manifests.ts: change the chart.\n';

/** The chart with its default values, as files by name, one for each template, and a kustomization of them. */
async function render(): Promise<Map<string, string>> {
  const rendered = await helm('template', 'pushpacer', CHART);
  const files = new Map<string, string>();
  for (const document of rendered.split(/^---\n/m)) {
    const [source, name] = /^# Source: pushpacer\/templates\/(.+)\n/.exec(document) ?? [];
    if (source === undefined || name === undefined) continue;
    const before = files.get(name);
    files.set(name, `${before === undefined ? HEAD : `${before}---\n`}${document.slice(source.length)}`);
  }
  const resources = [...files.keys()].sort().map((name) => `  - ${name}\n`);
  files.set(
    'kustomization.yaml',
    `${HEAD}apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n${resources.join('')}`,
  );
  const config = await resolveConfig(join(FOLDER, 'worker.yaml'));
  for (const [name, text] of files) files.set(name, await format(text, { ...config, parser: 'yaml' }));
  return files;
}

/** `node tools/manifests.ts [--check]`: writes the plain manifests anew, or says whether they are those of the chart. */
async function main(): Promise<void> {
  const { values } = parseArgs({ options: { check: { type: 'boolean', default: false } } });
  const files = await render();
  await mkdir(FOLDER, { recursive: true });
  const there = await readdir(FOLDER);
  if (values.check) {
    const read = await Promise.all(
      there.map(async (name) => [name, await readFile(join(FOLDER, name), 'utf8')] as const),
    );
    const wrong = read.filter(([name, text]) => files.get(name) !== text).map(([name]) => name);
    const missing = [...files.keys()].filter((name) => !there.includes(name));
    if (wrong.length + missing.length === 0) return;
    process.stderr.write(
      `${FOLDER}: not what node tools/manifests.ts writes: ${[...wrong, ...missing].sort().join(', ')}\n`,
    );
    process.exitCode = 1;
    return;
  }
  for (const name of there.filter((each) => !files.has(each))) await rm(join(FOLDER, name));
  for (const [name, text] of files) await writeFile(join(FOLDER, name), text);
}

await main();
