#!/usr/bin/env node
import './support/node-version.ts';

// Loaded only after the check of the version: an old Node could not even parse all of it.
const { main } = await import('./support/commands.ts');
await main(process.argv.slice(2));
