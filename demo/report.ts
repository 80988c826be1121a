import { formatDuration } from '../src/domain/time.ts';
import { instant } from '../src/terminal/text.ts';
import type { DemoResult } from './counts.ts';
import {
  teachersOf,
  type Findings,
  type Teacher,
  lane,
  laneAxis,
  createScale,
  seconds,
  staircase,
  markup,
  Markup,
} from './drawing.ts';
import type { DemoDeadLetter } from './queue.ts';
import { groupByReason, machineFacts, verdictText } from './show.ts';
import type { Check } from './verdict.ts';

/** The report as one HTML page that needs nothing else: no script, no font, no picture from elsewhere. */
export function renderReport(findings: Findings): string {
  const { result, promises, machine, letters, policy, enqueuedAt, enqueuingMs } = findings;
  const teachers = teachersOf(findings);
  const lastMs = Math.max(
    0,
    ...teachers.flatMap(({ alerts, idealMs }) => [alerts.at(-1)?.atMs ?? 0, idealMs.at(-1) ?? 0]),
  );
  const scale = createScale(lastMs);
  const facts = machineFacts(findings);
  const [busiest] = teachers;
  const page = markup`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>pushpacer: a morning at a school</title>
<style>${STYLE}</style>
</head>
<body>
<main>
<header>
<h1>A morning at a school, delivered by pushpacer</h1>
<p class="quiet">${result.notifications} notifications to ${teachers.length} teachers, enqueued within ${(enqueuingMs / 1_000).toFixed(2)} s, delivered by ${result.workers} worker processes
through servers that answer as APNs, FCM and a push service for browsers do. Limits for each teacher: ${limitsText(policy)}.</p>
<p class="answer ${[...promises, ...machine].every(({ ok }) => ok) ? 'good' : 'bad'}">${verdictText(promises, machine)}</p>
</header>
<section aria-label="Results">${tiles(findings)}</section>
${busiest === undefined ? '' : burst(busiest, staircase(busiest, scale))}
<section>
<h2>Every teacher</h2>
<p class="quiet">Each alert when it arrived at the provider, until all notifications had ended. The ${result.backgroundPushes} background pushes show nothing and are not drawn. Point at a mark for its notification and instant.</p>
${legend()}
<ol class="lanes">${teachers.map((teacher) => lane(teacher, scale))}</ol>
${laneAxis(scale)}
</section>
<section>
<h2>The promises</h2>
<p class="quiet">Judged by what the providers received and by the queue, not by what was intended.</p>
${checkList(promises)}
</section>
<section>
<h2>This machine</h2>
<p class="quiet">What depends on the machine, beside what the machine did. A gap counts as broken only if it was too short by every instant at which the two alerts may have left.</p>
${checkList(machine)}
${facts.length === 0 ? '' : markup`<ul class="quiet">${facts.map((fact) => markup`<li>${fact}</li>`)}</ul>`}
</section>
<section>
<h2>Dead letters</h2>
<p class="quiet">What cannot be delivered as it is: ${letters.length} notifications, kept with their reasons. They can be replayed once the cause is corrected.</p>
${deadLetterTables(letters)}
</section>
<section>
<h2>The numbers</h2>
${teachersTable(teachers)}
${numbersTable(result)}
</section>
<footer>Made by <code>npm run demo -- --report FILE</code> on ${instant(enqueuedAt)}. A gap counts as kept from 50 ms less than the limit on: a request may leave 25 ms late, and takes some time to arrive.</footer>
</main>
</body>
</html>
`;
  return page.text;
}

function checkList(checks: readonly Check[]): Markup {
  const lines = checks.map(
    ({ what, found, ok }) =>
      markup`<li><b class="${ok ? 'good' : 'bad'}">${ok ? 'ok' : 'FAIL'}</b><span>${what}: ${found}</span></li>`,
  );
  return markup`<ul class="checks">${lines}</ul>`;
}

/** `at most 10 alerts in 3s and 20 in 8s, and 250ms between two` */
function limitsText({ rules, minGapMs }: Findings['policy']): string {
  const most = rules.map(
    ({ max, perMs }, index) => `${max}${index === 0 ? ' alerts' : ''} in ${formatDuration(perMs)}`,
  );
  return `at most ${most.join(' and ')}, and ${formatDuration(minGapMs)} between two`;
}

function tiles({ result }: Findings): Markup {
  const all: readonly (readonly [string, string | number])[] = [
    ['delivered', result.delivered],
    ['dead letters', result.deadLettered],
    ['expired', result.expired],
    ['lost', result.lost],
    ['sent twice', result.duplicates],
    ['least gap', result.minGapMs === null ? '-' : `${Math.round(result.minGapMs)} ms`],
    ['requeues each', result.requeuesPerBlocked.toFixed(2)],
    ['time / ideal', result.makespanRatio.toFixed(3)],
  ];
  return markup`<dl class="tiles">${all.map(([name, value]) => markup`<div><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}

function burst({ recipientId, enqueued, alerts, idealMs }: Teacher, drawing: Markup): Markup {
  return markup`<section>
<h2>The busiest teacher: ${recipientId}</h2>
<p class="quiet">${enqueued} notifications came within a few seconds. Sent as they came, they would be one burst. The filled steps are the alerts that had arrived; the pale line behind them is the fastest schedule that the limits allow.
The last alert came at ${seconds(alerts.at(-1)?.atMs ?? 0)}; at best it comes at ${seconds(idealMs.at(-1) ?? 0)}.</p>
${drawing}
</section>`;
}

function legend(): Markup {
  return markup`<ul class="legend">
<li><svg width="12" height="16" aria-hidden="true"><path class="enqueued" d="M1 3h9l-9 9z"/></svg>enqueued</li>
<li><svg width="12" height="16" aria-hidden="true"><line class="arrived" x1="6" x2="6" y1="2" y2="14"/></svg>arrived at the provider</li>
<li><svg width="12" height="16" aria-hidden="true"><line class="refused" x1="6" x2="6" y1="0" y2="16"/></svg>refused by the provider</li>
<li><svg width="12" height="16" aria-hidden="true"><line class="ideal" x1="6" x2="6" y1="4" y2="12"/></svg>ideal schedule</li>
<li><svg width="20" height="16" aria-hidden="true"><rect class="full" width="20" height="16"/></svg>a window is used up: the next alert waits</li>
</ul>`;
}

/** A table for each reason. */
function deadLetterTables(letters: readonly DemoDeadLetter[]): Markup {
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
function teachersTable(teachers: readonly Teacher[]): Markup {
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
function numbersTable(result: DemoResult): Markup {
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

/** The report's colours and layout; it follows the reader's choice of light or dark. */
const STYLE = new Markup(`
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #ffffff; --text: #17202b; --quiet: #566270; --rule: #dfe4ea; --ground: #f3f5f8;
  --arrived: #0b7285; --area: #0b728526; --ideal: #7a8694; --full: #e8a33d40; --enqueued: #b3541e;
  --good: #1a7f4b; --bad: #c0262d;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #0e1318; --card: #161d25; --text: #e6ebf1; --quiet: #9aa7b5; --rule: #2a3441; --ground: #11171e;
    --arrived: #4cc3d9; --area: #4cc3d92e; --ideal: #8593a3; --full: #e8a33d38; --enqueued: #f0955a;
    --good: #56c98d; --bad: #ff7b7f;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 40px 20px 60px; }
h1 { font-size: clamp(1.5rem, 4.5vw, 2.1rem); line-height: 1.2; margin: 0 0 8px; letter-spacing: -0.01em; }
h2 { font-size: 1.15rem; margin: 0 0 4px; }
p { margin: 0 0 12px; max-width: 70ch; }
.quiet { color: var(--quiet); }
.answer { font-weight: 600; margin: 16px 0; }
.good { color: var(--good); }
.bad { color: var(--bad); }
section { background: var(--card); border: 1px solid var(--rule); border-radius: 12px; padding: 20px; margin-top: 16px; }
.tiles { display: grid; grid-template-columns: repeat(8, 1fr); gap: 16px 12px; margin: 0; }
.tiles div { border-left: 3px solid var(--rule); padding-left: 12px; }
.tiles dt { color: var(--quiet); font-size: 0.8rem; }
.tiles dd { margin: 0; font-size: 1.5rem; font-weight: 650; font-variant-numeric: tabular-nums; }
.legend { display: flex; flex-wrap: wrap; gap: 4px 20px; padding: 0; margin: 8px 0 14px; list-style: none; color: var(--quiet); font-size: 0.85rem; }
.legend svg { vertical-align: -3px; margin-right: 6px; }
.lanes { list-style: none; margin: 0; padding: 0; }
.lane { display: grid; grid-template-columns: 220px 1fr; gap: 0 16px; align-items: center; margin-bottom: 8px; }
.lane.axis { margin: 0; }
.who { line-height: 1.3; overflow-wrap: anywhere; }
.who span { display: block; color: var(--quiet); font-size: 0.78rem; }
.drawing { display: block; width: 100%; overflow: visible; }
.ground { fill: var(--ground); }
.grid { stroke: var(--rule); }
.label { fill: var(--quiet); font-size: 12px; font-variant-numeric: tabular-nums; }
.strong { fill: var(--enqueued); }
.full { fill: var(--full); }
.arrived { stroke: var(--arrived); stroke-width: 3; stroke-linecap: round; }
.refused { stroke: var(--bad); stroke-width: 3; stroke-dasharray: 3 4; }
.arrived:hover, .refused:hover { stroke: var(--text); }
.ideal { stroke: var(--ideal); stroke-width: 1.5; }
.enqueued { fill: var(--enqueued); }
.enqueued-line { stroke: var(--enqueued); stroke-width: 2; stroke-dasharray: 2 4; }
.arrived-area { fill: var(--area); }
.arrived-line, .ideal-line { fill: none; vector-effect: non-scaling-stroke; }
.arrived-line { stroke: var(--arrived); stroke-width: 2.5; }
.ideal-line { stroke: var(--ideal); stroke-width: 9; stroke-opacity: 0.38; }
.checks { list-style: none; margin: 8px 0 0; padding: 0; }
.checks li { display: grid; grid-template-columns: 3.2em 1fr; padding: 5px 0; border-top: 1px solid var(--rule); }
.checks b { font-weight: 650; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; }
caption { text-align: left; color: var(--quiet); padding: 16px 0 6px; }
th, td { text-align: left; padding: 6px 12px 6px 0; border-top: 1px solid var(--rule); vertical-align: top; overflow-wrap: anywhere; }
th { font-weight: 600; }
thead th { color: var(--quiet); font-size: 0.8rem; }
.letters :is(th, td):nth-child(-n + 2) { white-space: nowrap; width: 11em; padding-right: 24px; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.numbers th { white-space: nowrap; }
code { font: 0.9em ui-monospace, monospace; }
footer { color: var(--quiet); font-size: 0.85rem; margin-top: 20px; }
@media (max-width: 960px) { .tiles { grid-template-columns: repeat(4, 1fr); } }
@media (max-width: 640px) {
  .tiles { grid-template-columns: repeat(2, 1fr); }
  main { padding: 24px 12px 40px; }
  section { padding: 16px 12px; }
  .lane { grid-template-columns: 1fr; gap: 3px; margin-bottom: 14px; }
  .lane.axis .who { display: none; }
  .who span { display: inline; }
  .arrived { stroke-width: 2; stroke-linecap: butt; }
  .ideal { stroke-width: 1; }
  th, td { padding-right: 10px; }
  .numbers tbody th { position: sticky; left: 0; background: var(--card); }
  .letters :is(th, td):nth-child(-n + 2) { width: auto; padding-right: 10px; white-space: normal; overflow-wrap: normal; }
}
`);
