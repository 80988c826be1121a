import { html } from 'hono/html';
import type { Context } from 'hono';
import { InputError, formatFault } from '../../src/domain/faults.ts';
import { notificationSchema } from '../../src/notification/notification.ts';
import type { Inspection } from '../../src/limiter/limiter.ts';
import { operationOf, OPERATIONS } from '../../src/operations/catalogue.ts';
import { fieldsOf } from '../../src/operations/fields.ts';
import { ask, type Asked, type Kept, type Operation } from '../../src/operations/operation.ts';
import type { CancelPreview, Preview } from '../../src/operations/preview.ts';
import { previewOperation, runOperation, type Foreseen } from '../../src/operations/run.ts';
import { instantFrom, span } from '../../src/terminal/text.ts';
import { fieldHtml, givenIn } from '../fields.ts';
import { formOf } from '../forms.ts';
import {
  badge,
  count,
  counted,
  facts,
  notice,
  notificationLink,
  page,
  section,
  table,
  when,
  type Html,
} from '../layout.ts';
import type { Page } from '../parts.ts';
import type { ConsoleEnv } from '../session.ts';

/** The id in the path; undefined if no recipient can have it. */
export function recipientIn(c: Context<ConsoleEnv>): string | undefined {
  const checked = notificationSchema.shape.recipientId.safeParse(c.req.param('id'));
  return checked.success ? checked.data : undefined;
}

export function noRecipient(c: Context<ConsoleEnv>): Response | Promise<Response> {
  const advice = 'The id of a recipient has 1 to 256 characters. Search for it instead.';
  return notice(c, { title: 'No recipient can have this id', advice });
}

/**
 * `GET /recipients/:id/block?for=2h&reason=exam` shows what would move, and writes nothing. The form on that page posts the
 * same fields to the same path, with the instant of the end in place of the duration, and then the operation is done.
 */
export const recipientActions: Page = (app, parts) => {
  app.get('/recipients/:id/:operation', (c) =>
    answering(c, async (id, operation) => {
      if (c.get('user').role !== 'operator') {
        return notice(c, { title: 'Only operators may do this', advice: 'Your token may look, not act.', status: 403 });
      }
      const asked = ask(operation, id, givenIn(operation, new URL(c.req.url).searchParams));
      const foreseen = await previewOperation(asked, await parts.operating(id));
      return page(c, { title: `${operation.title}: ${id}`, body: previewBody(asked, foreseen) });
    }),
  );

  app.post('/recipients/:id/:operation', (c) =>
    answering(c, async (id, operation) => {
      const asked = ask(operation, id, givenIn(operation, await formOf(c)));
      const done = await runOperation(asked, await parts.operating(id), c.get('acting')().name);
      return c.redirect(`${pathOf(id)}?done=${operation.name}&count=${done.count}`, 303);
    }),
  );
};

/** Answers; if the fields have faults, the answer is a page that names the faults and leads back to the recipient. */
async function answering(
  c: Context<ConsoleEnv>,
  answer: (id: string, operation: Operation) => Response | Promise<Response>,
): Promise<Response> {
  const [id, operation] = [recipientIn(c), operationOf(c.req.param('operation'))];
  if (id === undefined || operation === undefined) return noRecipient(c);
  try {
    return await answer(id, operation);
  } catch (error) {
    if (!(error instanceof InputError)) throw error;
    const body = html`<h1>That cannot be</h1>
      <ul class="verdict bad" role="alert">
        ${error.faults.map((fault) => html`<li>${formatFault(fault)}</li>`)}
      </ul>
      <p>
        <a href="${pathOf(id)}">Back to <span class="id">${id}</span></a>
      </p>`;
    return page(c, { title: 'That cannot be', status: 400, body });
  }
}

function pathOf(id: string): string {
  return `/recipients/${encodeURIComponent(id)}`;
}

/* The preview */

/** The table lists at most this many of the notifications that would move. */
const MOST_LISTED = 100;

function previewBody({ operation, recipientId: id }: Asked, { would, settled, preview: foreseen }: Foreseen): Html {
  const { now, slots, moves } = foreseen;
  const isEmpty = 'cancels' in foreseen && foreseen.cancels === 0;
  const rows = slots
    .slice(0, MOST_LISTED)
    .map(({ id: moved, from, to, rule, ruleUntil }) => [
      moved === undefined ? html`<span class="none">–</span>` : notificationLink(moved),
      when(from, now),
      when(to, now),
      to < from ? badge(`${span(from - to)} earlier`, 'ok') : badge(`${span(to - from)} later`, 'warn'),
      html`${rule}${ruleUntil === undefined ? '' : html` ends ${when(ruleUntil, now)}`}`,
    ]);
  const { title, name: kind, isGentle = false } = operation;
  const target = settled['notification'];
  const fields = Object.entries(settled).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`,
  );
  return html`<h1>${title}: <span class="id">${id}</span></h1>
    <p>${would}</p>
    <section>
      <h2>What it would do</h2>
      <p class="outcome">${outcomeText(foreseen)}</p>
      ${facts([
        ...(target === undefined ? [] : [['Notification', notificationLink(String(target))] as const]),
        ['Waiting for a slot', count(foreseen.waiting)],
        ['Last slot now', lastText(foreseen.lastAtBefore, now)],
        ['Last slot then', lastText(foreseen.lastAtAfter, now)],
      ])}
      <p class="hint">Nothing is done yet. Until you confirm, more may come, and some may be sent.</p>
      <form class="confirm" method="post" action="${pathOf(id)}/${kind}">
        ${fields} ${isEmpty ? '' : html`<button class="${isGentle ? '' : 'danger'}">${title}</button>`}
        <a class="button quiet" href="${pathOf(id)}">Leave it as it is</a>
      </form>
    </section>
    ${moves === 0 ? '' : section('What would move', movedTable(rows, moves))}`;
}

function movedTable(rows: readonly (readonly (Html | string)[])[], moves: number): Html {
  const hidden = moves - rows.length;
  return html`${table(['Notification', 'Slot now', 'Slot then', '', 'Held by then'], rows)}
  ${hidden > 0 ? html`<p class="hint">And ${count(hidden)} more.</p>` : ''}`;
}

function lastText(at: number | undefined, now: number): Html | string {
  return at === undefined ? 'none waits' : when(at, now);
}

/** `14 of 20 move, the last one to 2026-11-23T10:02:00Z (in 2h).` */
function outcomeText(foreseen: Preview | CancelPreview): string {
  const { now, waiting, moves, earlier, later, expiring, expiryKnown, slots } = foreseen;
  const last = slots.reduce((latest, { to }) => Math.max(latest, to), -Infinity);
  const sides = earlier > 0 && later > 0 ? ` ${count(earlier)} to earlier, ${count(later)} to later.` : '';
  const known = expiryKnown < later ? ` (of the first ${count(expiryKnown)} of them)` : '';
  return [
    'cancels' in foreseen ? cancelText(foreseen) : '',
    moves === 0
      ? `None of the ${count(waiting)} that wait moves.`
      : `${moves === waiting ? `All ${count(moves)}` : `${count(moves)} of the ${count(waiting)}`} that wait ${moves === 1 ? 'moves' : 'move'}, the last one to ${instantFrom(now, last)}.`,
    sides,
    expiring === 0
      ? ''
      : `${count(expiring)}${known} ${expiring === 1 ? 'expires' : 'expire'} before the new slot, and will not be sent.`,
  ]
    .filter((part) => part !== '')
    .join(' ');
}

function cancelText({ cancels, tooLate }: CancelPreview): string {
  const late = tooLate === 0 ? '' : ` For ${count(tooLate)} it is too late.`;
  if (cancels > 0) return `${counted(cancels, 'notification')} ${cancels === 1 ? 'is' : 'are'} canceled.${late}`;
  return `No notification of this recipient waits that would be canceled.${late}`;
}

/** The text on the page of the recipient after an operation. */
export function doneText({ name, done }: Operation, moved: number): string {
  const many = Number.isSafeInteger(moved) && moved > 0 ? moved : 0;
  if (name === 'cancel') return `Done: ${counted(many, 'notification')} canceled.`;
  const what = many === 0 ? 'no notification moved' : `${counted(many, 'notification')} moved`;
  return `Done: ${done}; ${what}.`;
}

/* The forms */

/** The forms, each of which leads to a preview. Only forms that make sense for the recipient now are offered. */
export function actionForms(id: string, recipient: Inspection, kept: readonly Kept[]): Html {
  const forms = OPERATIONS.filter((operation) => operation.isOffered(recipient, kept)).map((operation) => {
    const values = operation.initial?.(recipient) ?? {};
    return html`<details name="action">
      <summary>${operation.title}</summary>
      <form class="act" method="get" action="${pathOf(id)}/${operation.name}">
        <p class="hint">${operation.hint}</p>
        ${fieldsOf(operation).map((field) => fieldHtml(field, values))}
        <button>Preview</button>
      </form>
    </details>`;
  });
  return html`<p class="hint">Each shows first what it would move. Nothing is done before you confirm.</p>
    <div class="acts">${forms}</div>`;
}
