// Runs before the build, on any Node and where nothing is installed yet: so it is plain JavaScript and needs no package.
import { existsSync } from 'node:fs';
import process from 'node:process';
import { URL } from 'node:url';

const NEEDED = ['node', 'typescript'];

if (NEEDED.some((name) => !existsSync(new URL(`../node_modules/${name}/package.json`, import.meta.url)))) {
  process.stderr.write(
    'error: the packages of this clone of pushpacer are not installed; run "npm ci" in it, then the same command again\n',
  );
  process.exit(1);
}
