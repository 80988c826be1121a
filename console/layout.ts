import type { Context } from 'hono';
import { html } from 'hono/html';
import type { HtmlEscapedString } from 'hono/utils/html';
import { fromNow, instant, span } from '../src/terminal/text.ts';
import type { ConsoleEnv, User } from './session.ts';

/** The frame of every page, and the small parts that pages share. `html` escapes every value that is put into it. */

export type Html = HtmlEscapedString | Promise<HtmlEscapedString>;

export interface PageOptions {
  readonly title: string;
  /** The link of this page in the navigation: `/dead-letters`. */
  readonly section?: string;
  readonly body: Html;
  /** While the page is visible, it refreshes its elements with `data-live` each time after this many milliseconds. */
  readonly refreshMs?: number;
  readonly status?: 200 | 400 | 403 | 404 | 409 | 429 | 500 | 503;
}

const SECTIONS = [
  ['/', 'Now'],
  ['/search', 'Search'],
  ['/dead-letters', 'Dead letters'],
  ['/what-if', 'What if'],
  ['/audit', 'Audit'],
] as const;

export function page(c: Context<ConsoleEnv>, options: PageOptions): Response | Promise<Response> {
  const { title, section, body, refreshMs, status = 200 } = options;
  const user = c.get('user') as User | undefined; // none at the login
  const nonce = c.get('secureHeadersNonce') ?? '';
  const links = SECTIONS.map(
    ([path, name]) => html`<a href="${path}" ${path === section ? html`aria-current="page"` : ''}>${name}</a>`,
  );
  return c.html(
    html`<!doctype html>
      <html lang="en">
        <head>
          <meta charset="utf-8" />
          <meta name="viewport" content="width=device-width, initial-scale=1" />
          <meta name="color-scheme" content="light dark" />
          <title>${title} – pushpacer</title>
          <link rel="icon" href="/assets/icon.svg" type="image/svg+xml" />
          <link rel="stylesheet" href="/assets/style.css" nonce="${nonce}" />
          <script src="/assets/console.js" nonce="${nonce}" defer></script>
        </head>
        <body ${refreshMs === undefined ? '' : html`data-refresh="${refreshMs}"`} data-now="${Date.now()}">
          <a class="skip" href="#main">Skip to the content</a>
          <header>
            <a class="brand" href="/">pushpacer</a>
            ${user === undefined ? '' : html`<nav aria-label="Pages">${links}</nav>`}
            ${user === undefined ? '' : userBox(c)}
          </header>
          <main id="main" tabindex="-1">${body}</main>
          <footer>
            Keys: <kbd>/</kbd> search, <kbd>n</kbd> now, <kbd>d</kbd> dead letters, <kbd>w</kbd> what if,
            <kbd>a</kbd> audit.
          </footer>
        </body>
      </html>`,
    status,
  );
}

function userBox(c: Context<ConsoleEnv>): Html {
  const { name, role } = c.get('user');
  if (name === 'local') return html`<span class="user">${role === 'viewer' ? 'read-only' : 'this machine'}</span>`;
  return html`<form class="user" method="post" action="/logout">
    <span>${name} (${role})</span> <button class="quiet">Log out</button>
  </form>`;
}

/** A page that says why there is nothing else to see. `advice`: what the user can do next. */
export function notice(
  c: Context<ConsoleEnv>,
  {
    title,
    advice,
    status = 404,
  }: { readonly title: string; readonly advice: string; readonly status?: PageOptions['status'] },
): Response | Promise<Response> {
  const back = c.req.path.startsWith('/dead-letters')
    ? html`<a href="/dead-letters">Back to Dead letters</a>`
    : html`<a href="/">Back to Now</a>`;
  return page(c, {
    title,
    status,
    body: html`<h1>${title}</h1>
      <p>${advice}</p>
      <p>${back}</p>`,
  });
}

/** The range of `Date`. Stored data may contain any number. */
const MAX_DATE_MS = 8.64e15;

/** An instant as `in 3m 2s`, with the exact one on hover. The script of the pages keeps the text up to date. */
export function when(at: number | undefined, now: number): Html {
  if (at === undefined || !(Math.abs(at) <= MAX_DATE_MS)) return html`<span class="none">–</span>`;
  return html`<time datetime="${new Date(at).toISOString()}" title="${exact(at)}" data-at="${at}"
    >${fromNow(now, at)}</time
  >`;
}

/** `2026-11-21T14:00:00.250Z` */
export function exact(at: number): string {
  return `${instant(at).slice(0, -1)}.${String(Math.floor(at % 1_000)).padStart(3, '0')}Z`;
}

/** A duration, such as `12.3 s`. */
export function duration(ms: number | undefined): string {
  return ms === undefined ? '–' : span(ms);
}

/** `1,234` */
export function count(value: number): string {
  return value.toLocaleString('en-US');
}

/** `1 job`, `1,234 jobs` */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${count(value)} ${value === 1 ? one : many}`;
}

export type Tone = 'ok' | 'warn' | 'bad' | 'plain';

export function badge(text: string, tone: Tone = 'plain'): Html {
  return html`<span class="badge ${tone}">${text}</span>`;
}

/** Rows of names and values. Rows whose value is `undefined` are left out. */
export function facts(rows: readonly (readonly [name: string, value: Html | string | number | undefined])[]): Html {
  const shown = rows.filter(([, value]) => value !== undefined);
  return html`<dl class="facts">
    ${shown.map(
      ([name, value]) =>
        html`<div>
          <dt>${name}</dt>
          <dd>${value}</dd>
        </div>`,
    )}
  </dl>`;
}

export interface TableColumn {
  readonly name: string;
  /** Numbers are aligned at the right. */
  readonly isNumber?: boolean;
}

/** With this many columns or more, a row becomes a list on a narrow screen. */
const MANY_COLUMNS = 4;

/**
 * A table. On a narrow screen, on which many columns have no room, each row is a list of its values with their names. `empty`:
 * the text if there are no rows.
 */
export function table(
  columns: readonly (string | TableColumn)[],
  rows: readonly (readonly (Html | string | number)[])[],
  empty: Html | string = 'Nothing here.',
): Html {
  if (rows.length === 0) return html`<p class="empty">${empty}</p>`;
  const all = columns.map((column) => (typeof column === 'string' ? { name: column } : column));
  const cell = (value: Html | string | number, index: number): Html => {
    const { name = '', isNumber = false } = all[index] ?? {};
    return html`<td class="${isNumber ? 'number' : ''}" data-name="${name}">${value}</td>`;
  };
  return html`<div class="scroll" tabindex="0" role="region" aria-label="Table">
    <table class="${all.length < MANY_COLUMNS ? '' : 'many'}">
      <thead>
        <tr>
          ${all.map(({ name, isNumber }) => html`<th scope="col" class="${isNumber === true ? 'number' : ''}">${name}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) =>
            html`<tr>
              ${row.map(cell)}
            </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

/** A part of a page with a heading. `live`: the part refreshes itself under this name, which must be unique on its page. */
export function section(title: string, content: Html, live?: string): Html {
  const body = live === undefined ? content : html`<div id="live-${live}" data-live>${content}</div>`;
  return html`<section>
    <h2>${title}</h2>
    ${body}
  </section>`;
}

export function recipientLink(recipientId: string | undefined): Html {
  if (recipientId === undefined) return html`<span class="none">–</span>`;
  return html`<a class="id" href="/recipients/${encodeURIComponent(recipientId)}">${recipientId}</a>`;
}

export function notificationLink(id: string): Html {
  return html`<a class="id" href="/notifications/${encodeURIComponent(id)}">${id}</a>`;
}
