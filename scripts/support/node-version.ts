import { nodeFault } from '../../src/domain/node-version.ts';

// Every published program imports this file before it loads the rest (tools/build.ts). So an old Node says what to do, instead
// of failing on syntax that it does not know. For the same reason this file imports nothing else, and its syntax is old.

const fault = nodeFault(process.versions.node);
if (fault !== undefined) {
  process.stderr.write(`error: ${fault}\n`);
  process.exit(1);
}
