import { html } from 'hono/html';
import type { AuditEntry } from '../../src/operations/audit.ts';
import { instant } from '../../src/terminal/text.ts';
import { notice, page, table, when, type Html } from '../layout.ts';
import type { Page } from '../parts.ts';

const PER_PAGE = 50;

/** The audit: who did what, the newest actions first. */
export const auditPage: Page = (app, { audit }) => {
  app.get('/audit', async (c) => {
    const before = c.req.query('before');
    if (before !== undefined && !/^\d{1,15}-\d{1,10}$/.test(before)) {
      return notice(c, { title: 'No such page', advice: 'before: expected the id of an action.', status: 400 });
    }
    const entries = await audit.read({ before, count: PER_PAGE });
    const last = entries.at(-1);
    const older = entries.length < PER_PAGE || last === undefined ? undefined : `/audit?before=${last.id}`;
    return page(c, {
      title: 'Audit',
      section: '/audit',
      body: html`<h1>Audit</h1>
        <p>
          What operators did in consoles, in the terminal and by the HTTP API, the newest first. The last 10,000 actions
          are kept.
        </p>
        ${table(
          ['When', 'Who', 'What', 'To', 'Facts'],
          entries.map((entry) => rowOf(entry)),
          EMPTY,
        )}
        ${older === undefined ? '' : html`<p><a rel="next" href="${older}">Older</a></p>`}`,
    });
  });
};

const EMPTY = 'Nobody has done anything yet. What operators do to recipients and dead letters is listed here.';

function rowOf({ at, who, action, on, facts }: AuditEntry): (Html | string)[] {
  const entries = Object.entries(facts).map(([name, value]) => `${name} ${valueText(name, value)}`);
  return [when(at, Date.now()), who, action, html`<span class="id">${on}</span>`, entries.join(', ')];
}

function valueText(name: string, value: string | number | boolean): string {
  return typeof value === 'number' && /(At|until)$/i.test(name) ? instant(value) : String(value);
}
