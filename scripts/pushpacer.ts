#!/usr/bin/env node
import './support/node-version.ts';

// Loaded only after the check of the version: an old Node could not even parse all of it.
if (import.meta.filename.endsWith('.ts')) {
  // In a clone the next start is faster with compiled code that is kept. Not in the system's folder for temporary files: another
  // user could put code there, which this program would run.
  const { enableCompileCache } = await import('node:module');
  enableCompileCache(`${import.meta.dirname}/../node_modules/.cache/pushpacer`);
}
const { main } = await import('./support/commands.ts');
await main(process.argv.slice(2));
