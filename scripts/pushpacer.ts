#!/usr/bin/env node
import './support/node-version.ts';

// Loaded only after the check of the version: an old Node could not even parse all of it.
const { enableCompileCache } = await import('node:module');
enableCompileCache(); // keeps compiled code in the system's folder for temporary files, so that the next start is faster
const { main } = await import('./support/commands.ts');
await main(process.argv.slice(2));
