import { STANDSTILL, watchStandstills } from './delays.ts';

// Loaded into a worker with `--import` by those who judge what it sends: it writes a line into the worker's log for each time that
// the process could not run. A request that it was writing then left only when it went on.
watchStandstills((standstill) => void process.stdout.write(`${JSON.stringify({ msg: STANDSTILL, ...standstill })}\n`));
