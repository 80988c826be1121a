import { globSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { cruise, type ICruiseResult } from 'dependency-cruiser';
import extractOptions from 'dependency-cruiser/config-utl/extract-depcruise-options';
import extractTsConfig from 'dependency-cruiser/config-utl/extract-ts-config';

const FOLDERS = ['src', 'sandbox', 'api', 'console', 'workers', 'scripts', 'demo', 'chaos', 'tools', 'test', 'bench'];
const REPOSITORY = `${import.meta.dirname}/..`;

/**
 * Checks the imports below `root` by the rules of .dependency-cruiser.js; prints one line for each fault, and the counts.
 * A parser that does not know the syntax would see no modules and find no fault, so every file must have been looked at.
 */
async function checkImports(root: string): Promise<boolean> {
  const files = globSync(`{${FOLDERS.join(',')}}/**/*.ts`, { cwd: root, exclude: ['**/node_modules/**'] });
  const folders = FOLDERS.filter((folder) => files.some((file) => file.startsWith(`${folder}/`)));
  const options = await extractOptions(`${REPOSITORY}/.dependency-cruiser.js`);
  const { output } = await cruise(
    folders,
    { ...options, baseDir: root, validate: true },
    {},
    { tsConfig: extractTsConfig(`${REPOSITORY}/tsconfig.json`) },
  );
  const { modules, summary } = output as ICruiseResult;
  const imports = new Map(modules.map(({ source, dependencies }) => [source, dependencies.length]));
  const importCount = files.reduce((sum, file) => sum + (imports.get(file) ?? 0), 0);
  const faults = [
    ...summary.violations.map(({ rule, from, to }) => `${rule.name}: ${from} imports ${to}`),
    ...files.filter((file) => !imports.has(file)).map((file) => `${file}: was not looked at`),
    ...(importCount === 0 ? ['expected imports to look at, found none'] : []),
  ];
  for (const fault of faults) process.stdout.write(`${fault}\n`);
  process.stdout.write(`${files.length} modules, ${importCount} imports, ${faults.length} faults\n`);
  return faults.length === 0;
}

const { values } = parseArgs({ options: { root: { type: 'string', default: process.cwd() } } });
if (!(await checkImports(values.root))) process.exitCode = 1;
