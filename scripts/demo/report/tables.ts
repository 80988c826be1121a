import { groupByReason, type DemoDeadLetter } from '../dead-letters.ts';
import type { DemoResult } from '../verdict.ts';
import type { Teacher } from './data.ts';
import { markup, type Markup } from './markup.ts';
import { seconds } from './scale.ts';

/** A table for each reason. */
export function deadLetterTables(letters: readonly DemoDeadLetter[]): Markup {
  const tables = groupByReason(letters).map(({ reason, why, letters: own }) => {
    const rows = own.map(
      ({ id, recipientId, message }) =>
        markup`<tr><th scope="row">${id}</th><td>${recipientId ?? '-'}</td><td>${message}</td></tr>`,
    );
    return markup`<div class="scroll"><table class="letters">
<caption><b>${own.length} ${reason}</b>${why === undefined ? '' : `: ${why}`}</caption>
<thead><tr><th scope="col">notification</th><th scope="col">teacher</th><th scope="col">cause</th></tr></thead>
<tbody>${rows}</tbody>
</table></div>`;
  });
  return markup`${tables}`;
}

/** What the drawings show, as numbers. */
export function teachersTable(teachers: readonly Teacher[]): Markup {
  const heads = ['enqueued', 'alerts', 'least gap', 'last alert', 'ideal', 'dead letters', 'expired'];
  const rows = teachers.map((teacher) => {
    const { recipientId, enqueued, alerts, leastGapMs, idealMs, deadLetters, expired } = teacher;
    const cells = [
      enqueued,
      alerts.length,
      leastGapMs === undefined ? '-' : `${Math.round(leastGapMs)} ms`,
      instantOf(alerts.at(-1)?.atMs),
      instantOf(idealMs.at(-1)),
      deadLetters,
      expired,
    ];
    return markup`<tr><th scope="row">${recipientId}</th>${cells.map((cell) => markup`<td class="number">${cell}</td>`)}</tr>`;
  });
  return markup`<div class="scroll" tabindex="0"><table class="numbers">
<caption>Each teacher. Instants are counted from the enqueuing; the ideal is counted from the teacher's first alert.</caption>
<thead><tr><th scope="col">teacher</th>${heads.map((head) => markup`<th scope="col" class="number">${head}</th>`)}</tr></thead>
<tbody>${rows}</tbody>
</table></div>`;
}

/** The fields of the demo's `--json`, by the same names. */
export function numbersTable(result: DemoResult): Markup {
  const rows = Object.entries(result).map(
    ([name, value]) =>
      markup`<tr><th scope="row"><code>${name}</code></th><td class="number">${String(value)}</td></tr>`,
  );
  return markup`<div class="scroll" tabindex="0"><table class="numbers">
<caption>The whole run, by the names that <code>npm run demo -- --json</code> has for them.</caption>
<tbody>${rows}</tbody>
</table></div>`;
}

function instantOf(ms: number | undefined): string {
  return ms === undefined ? '-' : seconds(ms);
}
