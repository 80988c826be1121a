import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Facts } from './run.ts';

/** Writes the facts of a run as NDJSON, to find the cause of a failure. Contains tokens and texts (generated ones). */
export async function keepFacts(folder: string, { enqueued, entries, ends, struck, leaks }: Facts): Promise<void> {
  const incidents = struck.incidents.map((incident) => ({ ...incident, ids: [...incident.ids] }));
  const files: Readonly<Record<string, readonly unknown[]>> = {
    enqueued: [...enqueued.values()],
    journal: entries,
    completed: ends.completed,
    'dead-letters': ends.dead,
    incidents: [...incidents, ...struck.cuts],
    freezes: struck.freezes.map((freeze) => ({ ...freeze, holders: [...freeze.holders] })),
    leaks,
  };
  for (const [name, lines] of Object.entries(files)) {
    await writeFile(join(folder, `${name}.ndjson`), lines.map((line) => `${JSON.stringify(line)}\n`).join(''));
  }
}
