/* What a page does by itself: it refreshes what changes, keeps relative times up to date, and knows some keys. */
'use strict';

const body = document.body;
/** This machine's clock minus the console's. */
let skewMs = Date.now() - Number(body.dataset.now);
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

/** `12:31:20Z`: the time of day in UTC, as everywhere in the console. */
function clock(ms) {
  return `${new Date(ms).toISOString().slice(11, 19)}Z`;
}

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
  if (next.body.dataset.refresh === undefined) delete body.dataset.refresh;
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
    stale.textContent = `This page cannot be refreshed: the console or its Redis does not answer. It is as it was at ${clock(lastAt)}.`;
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

tick();
setInterval(tick, 1_000);
void refreshForever();
