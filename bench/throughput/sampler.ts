import { renameSync, writeFileSync } from 'node:fs';
import { Session } from 'node:inspector/promises';

// Loaded into a worker process before its own program (`--import`). The first SIGUSR2 starts sampling; once it has started, an
// empty file is written, named as BUDGET_FILE with `.begun` at the end. The second SIGUSR2 writes the result into BUDGET_FILE.
// BUDGET_SAMPLES: `time` or `memory`.

const { BUDGET_FILE = '', BUDGET_SAMPLES } = process.env;
/** The time between two samples of the processor, in microseconds. */
const EVERY_MICROS = 250;
/** On average, one allocation in this many allocated bytes is noted, with its stack. */
const EVERY_BYTES = 16_384;

const session = new Session();
session.connect();

async function begin(): Promise<void> {
  if (BUDGET_SAMPLES === 'memory') {
    // Includes what the garbage collector has freed since: garbage is what is to be counted.
    await session.post('HeapProfiler.startSampling', {
      samplingInterval: EVERY_BYTES,
      includeObjectsCollectedByMajorGC: true,
      includeObjectsCollectedByMinorGC: true,
    });
    return;
  }
  await session.post('Profiler.enable');
  await session.post('Profiler.setSamplingInterval', { interval: EVERY_MICROS });
  await session.post('Profiler.start');
}

async function end(): Promise<void> {
  const { profile } =
    BUDGET_SAMPLES === 'memory' ? await session.post('HeapProfiler.stopSampling') : await session.post('Profiler.stop');
  writeWhole(BUDGET_FILE, JSON.stringify(profile));
}

/** Writes a file so that no reader finds only a part of its text. */
function writeWhole(file: string, text: string): void {
  writeFileSync(`${file}.part`, text);
  renameSync(`${file}.part`, file);
}

process.once('SIGUSR2', () => {
  process.once('SIGUSR2', () => void end());
  void begin().then(() => writeWhole(`${BUDGET_FILE}.begun`, ''));
});
