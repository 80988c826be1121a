import { Markup } from './markup.ts';

/** The report's colours and layout; it follows the reader's choice of light or dark. */
export const STYLE = new Markup(`
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
