import { html } from 'hono/html';
import { storedRecipientId } from '../../src/notification/notification.ts';
import type { RecipientLook } from '../../src/operations/recipient.ts';
import { searchWaiting, type SearchResult } from '../../src/operations/search.ts';
import type { NotificationStatus } from '../../src/queue/status.ts';
import type { Page } from '../parts.ts';
import { count, counted, notificationLink, page, recipientLink, section, table, when, type Html } from '../layout.ts';

/**
 * Finds a notification or a recipient by its id, and waiting notifications by the beginning of an id, a category, or a
 * cancellation key.
 */
export const searchPages: Page = (app, { producer, look, shards, connection }) => {
  app.get('/search', async (c) => {
    const text = (c.req.query('q') ?? '').trim();
    const body = text === '' ? html`<p class="empty">${ADVICE}</p>` : await resultsFor(text);
    return page(c, {
      title: 'Search',
      section: '/search',
      body: html`<h1>Search</h1>
        ${form(text)}${body}`,
    });
  });

  async function resultsFor(text: string): Promise<Html> {
    const isId = storedRecipientId.safeParse(text).success;
    const [status, recipient, waiting] = await Promise.all([
      producer.status(text).catch((): NotificationStatus => ({ state: 'unknown' })), // the text cannot be an id
      isId ? look(text, { most: 0 }) : undefined,
      shards.open().then((opened) => searchWaiting(opened, connection, text)),
    ]);
    const known = recipient !== undefined && isKnown(recipient) ? recipient : undefined;
    const parts = [
      ...(status.state === 'unknown' ? [] : [section('Notification', foundNotification(text, status))]),
      ...(known === undefined ? [] : [section('Recipient', foundRecipient(text, known))]),
      ...(waiting.found.length === 0 ? [] : [section('Not ended yet', foundWaiting(waiting))]),
    ];
    if (parts.length > 0) return html`${parts}`;
    const looked =
      waiting.lookedAt < waiting.of
        ? ` Of ${count(waiting.of)} that have not ended, ${count(waiting.lookedAt)} were looked at.`
        : '';
    return html`<p class="empty">Nothing found for <span class="id">${text}</span>.${looked} ${ADVICE}</p>`;
  }
};

const ADVICE =
  'Give the whole id of a notification or a recipient. Of those that have not ended, the beginning of an id, a recipient or a category, or a whole cancellation key, is found too. Ended notifications are known for an hour, or longer with HISTORY_MAX.';

function form(text: string): Html {
  return html`<form class="search" role="search" action="/search">
    <label class="hidden" for="q">Id, recipient, category or cancellation key</label>
    <input
      id="q"
      name="q"
      type="search"
      value="${text}"
      placeholder="Id, recipient, category or cancellation key"
      maxlength="256"
      autofocus
    />
    <button>Search</button>
  </form>`;
}

function foundNotification(id: string, status: NotificationStatus): Html {
  const text = status.state === 'ended' ? `ended: ${status.outcome}` : status.state;
  return html`<p>${notificationLink(id)} ${text}</p>`;
}

/** How many of the recipient's notifications wait without a slot. */
function othersOf({ delayed, notTaken }: RecipientLook): number {
  return delayed.found.length + notTaken.found.length;
}

function isKnown(look: RecipientLook): boolean {
  const { sent, reserved, source, block, quiet } = look.inspection;
  const found = sent.length + reserved.length + othersOf(look) + look.sending.length + look.others.length;
  return found > 0 || source === 'stored' || quiet?.source === 'stored' || block !== undefined;
}

function foundRecipient(recipientId: string, look: RecipientLook): Html {
  const { sent, reserved } = look.inspection;
  const others = othersOf(look);
  return html`<p>
    ${recipientLink(recipientId)} ${counted(sent.length, 'alert')} sent lately, ${count(reserved.length)} wait for
    ${reserved.length === 1 ? 'a slot' : 'slots'}${others === 0 ? '' : `, ${count(others)} for something else`}
  </p>`;
}

function foundWaiting({ found, isCut }: SearchResult): Html {
  const rows = found.map(({ id, recipientId, category, cancellationKey, enqueuedAt }) => [
    notificationLink(id),
    recipientLink(recipientId),
    category ?? '',
    cancellationKey ?? '',
    when(enqueuedAt, Date.now()),
  ]);
  return html`${table(['Notification', 'Recipient', 'Category', 'Cancellation key', 'Enqueued'], rows)}
  ${isCut ? html`<p class="hint">There are more; these are the first ${found.length}.</p>` : ''}`;
}
