import { nodeFault } from './node-version.ts';

// The library imports this file before all others, so that an old Node does not fail later, at the first name that it lacks.

const ADVICE =
  'run "npm install --save-dev node@24" in the folder of your app, and start the app with "npx node" or "npm run"';

const fault = nodeFault(process.versions.node, ADVICE);
if (fault !== undefined) throw new Error(fault);
