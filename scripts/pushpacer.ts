#!/usr/bin/env node
import './support/node-version.ts';

// Loaded only now: an old Node could not even read all of it.
const { main } = await import('./support/commands.ts');
await main(process.argv.slice(2));
