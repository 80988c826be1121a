import { nodeFault } from './node-version.ts';

// The library imports this file before all others, so that an old Node does not fail later, at the first name that it lacks.

const fault = nodeFault(process.versions.node);
if (fault !== undefined) throw new Error(fault);
