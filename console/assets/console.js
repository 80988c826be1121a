/* What a page does by itself: it refreshes what changes, keeps relative times up to date, draws charts, and knows some keys. */
'use strict';

const body = document.body;
/** This machine's clock minus the console's. */
let skewMs = Date.now() - Number(body.dataset.now);
const charts = new Map();
/** When the page was last refreshed, on this machine's clock. */
let lastAt = Date.now();

/* Relative times */

const UNITS = [
  [86_400_000, 'd', 3_600_000, 'h'],
  [3_600_000, 'h', 60_000, 'm'],
  [60_000, 'm', 1_000, 's'],
];

function span(ms) {
  if (ms < 1_000) return `${Math.round(ms)}ms`;
  if (ms < 60_000) return `${Math.round(ms / 100) / 10}s`;
  for (const [size, unit, step, then] of UNITS) {
    if (ms < size) continue;
    const steps = Math.round(ms / step);
    const whole = Math.floor((steps * step) / size);
    const rest = steps - (whole * size) / step;
    return rest === 0 ? `${whole}${unit}` : `${whole}${unit} ${rest}${then}`;
  }
  return '1m';
}

function tick() {
  const now = Date.now() - skewMs;
  for (const time of document.querySelectorAll('time[data-at]')) {
    const leftMs = Number(time.dataset.at) - now;
    const whole = Math.round(Math.abs(leftMs) / 1_000) * 1_000;
    const text = whole === 0 ? 'now' : leftMs > 0 ? `in ${span(whole)}` : `${span(whole)} ago`;
    if (time.textContent !== text) time.textContent = text;
  }
}

/* Charts */

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** The time of day in UTC, as everywhere in the console. */
function clock(seconds, end = 16) {
  return `${new Date(seconds * 1_000).toISOString().slice(11, end)}Z`;
}

const CHART_HEIGHT = 135;
/** Of the labels of the axes, as they are drawn. */
const LABEL_FONT = '12px system-ui, sans-serif';
/** Between two instants that are named: whole minutes, so that none is named twice, or seconds with their label. */
const STEPS_S = [10, 20, 30, 60, 120, 300, 600, 900, 1_200, 1_800, 3_600];

/** `10,000`, `0.5/s`, `2.5s`: a value of a chart with its unit. */
function quantity(value, unit) {
  if (unit === 'ms') return value === 0 ? '0' : span(value);
  return `${(Math.round(value * 10) / 10).toLocaleString('en-US')}${unit}`;
}

/** How wide an axis has to be for its longest label. */
function widthFor(chart, labels) {
  if (!labels) return 0;
  chart.ctx.save();
  chart.ctx.font = LABEL_FONT;
  const widest = Math.max(...labels.map((label) => chart.ctx.measureText(label).width));
  chart.ctx.restore();
  return Math.ceil(widest) + 20; // the tick, and the room around the label
}

function draw(element) {
  const { times, lines } = JSON.parse(element.dataset.chart);
  const known = charts.get(element.id);
  if (known !== undefined && known.root.isConnected) {
    known.setData([times, ...lines.map(({ values }) => values)]);
    return;
  }
  const line = { stroke: colour('--line') };
  const axis = { stroke: colour('--muted'), font: LABEL_FONT, grid: line, ticks: line };
  const unit = element.dataset.unit;
  const shown = (value) => (value == null ? '–' : quantity(value, unit));
  const options = {
    width: element.clientWidth,
    height: CHART_HEIGHT,
    cursor: { drag: { x: false, y: false } },
    scales: { y: { range: (_, __, most) => [0, Math.max(most ?? 0, 1) * 1.1] } },
    axes: [
      {
        ...axis,
        space: 80,
        incrs: STEPS_S,
        values: (_, splits, __, ___, step) => splits.map((at) => clock(at, step < 60 ? 19 : 16)),
      },
      { ...axis, values: (_, splits) => splits.map((value) => quantity(value, unit)), size: widthFor },
    ],
    series: [
      { label: 'at', value: (_, at) => (at == null ? '–' : clock(at, 19)) },
      ...lines.map(({ name }, index) => ({
        label: name,
        stroke: colour(index === 0 ? '--accent' : '--second'),
        width: 2,
        spanGaps: true,
        value: (_, value) => shown(value),
      })),
    ],
  };
  element.replaceChildren();
  charts.set(element.id, new uPlot(options, [times, ...lines.map(({ values }) => values)], element));
}

function drawAll() {
  for (const element of document.querySelectorAll('.chart[data-chart]')) draw(element);
}

addEventListener('resize', () => {
  for (const [id, chart] of charts) {
    const width = document.getElementById(id)?.clientWidth;
    if (width) chart.setSize({ width, height: CHART_HEIGHT });
  }
});
matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => {
  for (const chart of charts.values()) chart.destroy();
  charts.clear();
  drawAll();
});

/* Refreshing: only what is marked is replaced, and nothing that somebody is using. */

/** Answers whether the page shows what is true now. */
async function refresh() {
  if (document.hidden) return true;
  const response = await fetch(location.href, { headers: { accept: 'text/html' } });
  if (response.redirected) location.reload(); // the login has ended
  if (!response.ok || response.redirected) return false;
  const next = new DOMParser().parseFromString(await response.text(), 'text/html');
  skewMs = Date.now() - Number(next.body.dataset.now);
  for (const element of document.querySelectorAll('[data-live]')) {
    const fresh = next.getElementById(element.id);
    if (fresh === null || element.contains(document.activeElement) || isSelected(element)) continue;
    if (fresh.innerHTML !== element.innerHTML) element.replaceChildren(...fresh.childNodes);
  }
  for (const element of document.querySelectorAll('.chart[data-chart]')) {
    const fresh = next.getElementById(element.id);
    if (fresh !== null) element.dataset.chart = fresh.dataset.chart;
  }
  if (next.body.dataset.refresh === undefined) delete body.dataset.refresh;
  drawAll();
  tick();
  return true;
}

/** Says that the page is old, where it could not be refreshed. */
function showAge(isFresh) {
  const known = document.getElementById('stale');
  if (isFresh) {
    known?.remove();
    lastAt = Date.now();
  } else if (known === null) {
    const stale = document.createElement('p');
    stale.id = 'stale';
    stale.className = 'wrong';
    stale.setAttribute('role', 'alert');
    stale.textContent = `This page cannot be refreshed: the console or its Redis does not answer. It is as it was at ${clock(lastAt / 1_000, 19)}.`;
    document.getElementById('main').prepend(stale);
  }
}

function isSelected(element) {
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && selection.containsNode(element, true);
}

async function refreshForever() {
  for (;;) {
    const everyMs = Number(body.dataset.refresh);
    if (!(everyMs > 0)) return;
    await new Promise((resolve) => setTimeout(resolve, everyMs));
    showAge(await refresh().catch(() => false));
  }
}

/* Keys */

const PLACES = { n: '/', d: '/dead-letters', w: '/what-if', a: '/audit' };

addEventListener('keydown', (event) => {
  const isTyping = event.target instanceof Element && event.target.closest('input, textarea, select') !== null;
  if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === '/') {
    event.preventDefault();
    const field = document.querySelector('input[type=search]');
    if (field === null) location.href = '/search';
    else field.focus();
  } else if (PLACES[event.key] !== undefined) location.href = PLACES[event.key];
});

drawAll();
tick();
setInterval(tick, 1_000);
void refreshForever();
