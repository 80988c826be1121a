import { html } from 'hono/html';
import type { Context } from 'hono';
import { InputError, formatFault } from '../../src/domain/faults.ts';
import { limitedText, ruleName, type Policy } from '../../src/domain/limits.ts';
import type { CancelTarget } from '../../src/domain/notification.ts';
import { DAYS, quietHoursText } from '../../src/domain/quiet-hours.ts';
import { formatDuration } from '../../src/domain/time.ts';
import type { Inspection } from '../../src/limiter/limiter.ts';
import { act } from '../../src/operations/actions.ts';
import { preview, previewCancel, type CancelPreview, type Preview } from '../../src/operations/preview.ts';
import { homesOf } from '../../src/queue/layout.ts';
import { instantFrom } from '../../src/terminal/text.ts';
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
import type { ConsoleParts, Page } from '../parts.ts';
import type { ConsoleEnv } from '../session.ts';
import {
  decide,
  hiddenFields,
  isActionKind,
  noRecipient,
  recipientIn,
  TITLES,
  type Decided,
  type Kind,
} from './recipient-fields.ts';

/**
 * `GET /recipients/:id/block?for=2h&reason=exam` shows what would move and writes nothing; its form posts the same to the same
 * path, with the instant of the end in place of the duration: then it is done.
 */
export const recipientActions: Page = (app, parts) => {
  app.get('/recipients/:id/:kind', async (c) => {
    const asked = askedIn(c);
    if (asked === undefined) return noRecipient(c);
    if (c.get('user').role !== 'operator') {
      return notice(c, { title: 'Only operators may do this', advice: 'Your token may look, not act.', status: 403 });
    }
    const { id, kind } = asked;
    return answering(c, id, async () => {
      const now = await limiterNow(id, parts);
      const decided = decide(id, kind, new URL(c.req.url).searchParams, now, await policyOf(parts));
      const foreseen = await previewOf(id, decided, parts);
      const title = `${TITLES[kind]}: ${id}`;
      return page(c, { title, body: previewBody(id, decided, foreseen) });
    });
  });

  app.post('/recipients/:id/:kind', async (c) => {
    const asked = askedIn(c);
    if (asked === undefined) return noRecipient(c);
    const { id, kind } = asked;
    return answering(c, id, async () => {
      const now = await limiterNow(id, parts);
      const decided = decide(id, kind, await fieldsOf(c), now, await policyOf(parts));
      const done = await run(c, id, decided, parts);
      return c.redirect(`/recipients/${encodeURIComponent(id)}?done=${kind}&count=${done}`, 303);
    });
  });
};

function askedIn(c: Context<ConsoleEnv>): { readonly id: string; readonly kind: Kind } | undefined {
  const [id, kind] = [recipientIn(c), c.req.param('kind')];
  return id !== undefined && isActionKind(kind) ? { id, kind } : undefined;
}

async function fieldsOf(c: Context<ConsoleEnv>): Promise<URLSearchParams> {
  const fields = new URLSearchParams();
  for (const [name, value] of await c.req.formData()) if (typeof value === 'string') fields.append(name, value);
  return fields;
}

/** What is wrong with the fields stands on a page that leads back to the recipient. */
async function answering(c: Context<ConsoleEnv>, id: string, answer: () => Promise<Response>): Promise<Response> {
  try {
    return await answer();
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

/** The limiter's clock: ends are on it. */
async function limiterNow(id: string, { limiters }: ConsoleParts): Promise<number> {
  return (await (await limiters()).limiters.alert.inspect(id)).now;
}

async function policyOf({ limiters }: ConsoleParts): Promise<Policy> {
  return (await limiters()).policy;
}

/* The preview */

async function previewOf(id: string, decided: Decided, parts: ConsoleParts): Promise<Preview | CancelPreview> {
  const { foresights } = await parts.limiters();
  const own = (await parts.shards.homes(id)).map((shard) => shard.queue);
  if (decided.kind !== 'cancel') return preview(id, decided, { foresights, own });
  const queues = (await parts.shards.open()).map((shard) => shard.queue);
  const layout = await parts.shards.layout();
  const homes = (recipientId: string) => homesOf(recipientId, layout);
  return previewCancel(id, decided.target, { foresights, own, queues, homes, connection: parts.connection });
}

/** So many of those that would move stand in the table. */
const MOST_LISTED = 100;

function previewBody(id: string, decided: Decided, foreseen: Preview | CancelPreview): Html {
  const { now, slots, moves } = foreseen;
  const isEmpty = 'cancels' in foreseen && foreseen.cancels === 0;
  const rows = slots
    .slice(0, MOST_LISTED)
    .map(({ id: moved, from, to, rule, ruleUntil }) => [
      moved === undefined ? html`<span class="none">–</span>` : notificationLink(moved),
      when(from, now),
      when(to, now),
      badge(to < from ? 'earlier' : 'later', to < from ? 'ok' : 'warn'),
      html`${rule}${ruleUntil === undefined ? '' : html` ends ${when(ruleUntil, now)}`}`,
    ]);
  const fields = hiddenFields(decided).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`,
  );
  return html`<h1>${TITLES[decided.kind]}: <span class="id">${id}</span></h1>
    <p>${whatText(decided, now)}</p>
    <section>
      <h2>What it would do</h2>
      <p class="outcome">${outcomeText(foreseen)}</p>
      ${facts([
        ['Waiting for a slot', count(foreseen.waiting)],
        ['Last slot now', lastText(foreseen.lastAtBefore, now)],
        ['Last slot then', lastText(foreseen.lastAtAfter, now)],
      ])}
      <p class="hint">Nothing is done yet. Until you confirm, more may come, and some may be sent.</p>
      <form class="confirm" method="post" action="${pathOf(id)}/${decided.kind}">
        ${fields}
        ${isEmpty ? '' : html`<button class="${isGentle(decided) ? '' : 'danger'}">${TITLES[decided.kind]}</button>`}
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

function isGentle({ kind }: Decided): boolean {
  return kind === 'unblock' || kind === 'unlimit' || kind === 'unquiet';
}

function lastText(at: number | undefined, now: number): Html | string {
  return at === undefined ? 'none waits' : when(at, now);
}

/** What would be done, with the values as they were understood. */
function whatText(decided: Decided, now: number): Html | string {
  switch (decided.kind) {
    case 'block':
      return html`Nothing is sent to it until ${instantFrom(now, decided.until)}: ${decided.reason}`;
    case 'unblock':
      return 'The block ends. What waits goes as soon as the limits allow it.';
    case 'limit': {
      const { policy, until } = decided;
      const end = until === undefined ? 'without an end' : `until ${instantFrom(now, until)}`;
      return `It ${limitedText(policy)}, ${end}. Limits of categories hold too.`;
    }
    case 'unlimit':
      return 'The general limits hold for it again.';
    case 'quiet':
      return `No alert is shown in these times: ${quietHoursText(decided.hours)}.`;
    case 'unquiet':
      return 'The general quiet hours hold for it again, if there are any.';
    case 'reset':
      return 'What was sent counts no longer, so more may follow at once. Limits of its own and a block stay.';
    case 'cancel':
      return 'id' in decided.target
        ? html`${notificationLink(decided.target.id)} is not sent, if it is not too late.`
        : html`What waits under the cancellation key <span class="id">${decided.target.cancellationKey}</span> is not
            sent.`;
  }
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

/* What is done */

/** Does it, and writes that down. Answers how many moved, or were canceled. */
async function run(c: Context<ConsoleEnv>, id: string, decided: Decided, parts: ConsoleParts): Promise<number> {
  const { kind } = decided;
  const write = (done: Readonly<Record<string, number | boolean>>) =>
    parts.audit.write({
      who: c.get('user').name,
      action: `recipient ${kind}`,
      on: id,
      facts: { ...factsOf(decided), ...done },
    });
  if (kind === 'cancel') {
    await checkOwn(id, decided.target, parts);
    const { canceled, tooLate } = await parts.producer.cancel(decided.target);
    await write({ canceled, tooLate });
    return canceled;
  }
  const { limiters, policy } = await parts.limiters();
  const queues = (await parts.shards.homes(id)).map((shard) => shard.queue);
  let moved = 0;
  const onMoved = (soFar: number): void => {
    moved = soFar;
  };
  try {
    await act(id, decided, { limiters, policy, queues }, onMoved);
  } catch (error) {
    if (!(error instanceof InputError)) await write({ moved, failed: true });
    throw error;
  }
  await write({ moved });
  return moved;
}

/** The settings; the end as a number, which the audit shows as an instant. */
function factsOf(decided: Decided): Readonly<Record<string, string | number>> {
  const until = 'until' in decided && decided.until !== undefined ? { until: decided.until } : {};
  return { ...Object.fromEntries(hiddenFields(decided)), ...until };
}

/** The preview was of this recipient, so nothing of another one is canceled from its page. */
async function checkOwn(recipientId: string, target: CancelTarget, parts: ConsoleParts): Promise<void> {
  if (!('id' in target)) return;
  const { cancels } = (await previewOf(recipientId, { kind: 'cancel', target }, parts)) as CancelPreview;
  if (cancels > 0) return;
  const expected = 'the id of a notification of this recipient that waits';
  throw new InputError('unusable form', [{ path: 'notification', expected, found: JSON.stringify(target.id) }]);
}

/** On the page of the recipient, after it. */
export function doneText(kind: Kind, moved: number): string {
  const many = Number.isSafeInteger(moved) && moved > 0 ? moved : 0;
  if (kind === 'cancel') return `Done: ${counted(many, 'notification')} canceled.`;
  const what = many === 0 ? 'no notification moved' : `${counted(many, 'notification')} moved`;
  return `Done: ${DONE[kind]}; ${what}.`;
}

const DONE: Readonly<Record<Exclude<Kind, 'cancel'>, string>> = {
  block: 'the recipient is blocked',
  unblock: 'the block has ended',
  limit: 'the limits are stored',
  unlimit: 'the general limits hold',
  quiet: 'the quiet hours are stored',
  unquiet: 'the general quiet hours hold',
  reset: 'what was sent counts no longer',
};

/* The forms */

/** Each leads to a preview. Only what makes sense now is offered. */
export function actionForms(id: string, { block, source, quiet, policy, sent }: Inspection): Html {
  const form = (kind: Kind, hint: string, fields: Html): Html =>
    html`<details name="action">
      <summary>${TITLES[kind]}</summary>
      <form class="act" method="get" action="${pathOf(id)}/${kind}">
        <p class="hint">${hint}</p>
        ${fields}
        <button>Preview</button>
      </form>
    </details>`;
  return html`<p class="hint">Each shows first what it would move. Nothing is done before you confirm.</p>
    <div class="acts">
      ${[
        form(
          'block',
          'Nothing is sent to it before the end. What waits is moved behind the end, in its order.',
          html`${field('for', 'For', { value: '2h', hint: 'such as 30m, 2h or 7d' })}
          ${field('reason', 'Reason', { maxLength: 500, hint: 'for people to read' })}`,
        ),
        ...(block === undefined ? [] : [form('unblock', 'What waits moves up.', html``)]),
        form(
          'limit',
          'Limits of its own, in place of the general ones.',
          html`${field('rules', 'Rules', { value: policy.rules.map(ruleName).join(',') || 'none', hint: 'such as 5/1m,50/1h; none' })}
          ${field('gap', 'Gap', { value: policy.minGapMs === 0 ? '0' : formatDuration(policy.minGapMs), hint: 'the least time between two alerts' })}
          ${field('for', 'For', { isOptional: true, hint: 'without an end if it is empty' })}`,
        ),
        ...(source === 'stored' ? [form('unlimit', 'The general limits hold again.', html``)] : []),
        form('quiet', 'No alert is shown in this time. For several times use the command.', quietFields(quiet)),
        ...(quiet?.source === 'stored' ? [form('unquiet', 'The general quiet hours hold again.', html``)] : []),
        ...(sent.length > 0
          ? [form('reset', 'What was sent counts no longer, so more may follow at once.', html``)]
          : []),
        form(
          'cancel',
          'All that wait under a cancellation key. To cancel one, use the link in its row.',
          field('key', 'Cancellation key', { maxLength: 256 }),
        ),
      ]}
    </div>`;
}

interface FieldOptions {
  readonly value?: string;
  readonly hint?: string;
  readonly maxLength?: number;
  readonly isOptional?: boolean;
  readonly type?: string;
}

function field(name: string, label: string, options: FieldOptions = {}): Html {
  const { value = '', hint = '', maxLength = 200, isOptional = false, type = 'text' } = options;
  return html`<label class="field"
    ><span>${label}</span>
    <input name="${name}" type="${type}" value="${value}" maxlength="${maxLength}" ${isOptional ? '' : 'required'} />
    <span class="hint">${hint}</span></label
  >`;
}

function quietFields(quiet: Inspection['quiet']): Html {
  const [time] = quiet?.hours.quietHours ?? [];
  const days = new Set<string>(time?.days ?? DAYS);
  return html`${field('timezone', 'Time zone', { value: quiet?.hours.timezone ?? 'UTC', hint: 'such as Europe/Paris' })}
    ${field('from', 'From', { value: time?.from ?? '21:00', type: 'time' })}
    ${field('end', 'Until', { value: time?.until === '24:00' ? '00:00' : (time?.until ?? '07:00'), type: 'time' })}
    <fieldset class="field">
      <legend>Begins on</legend>
      ${DAYS.map(
        (day) =>
          html`<label class="day"
            ><input type="checkbox" name="days" value="${day}" ${days.has(day) ? 'checked' : ''} /> ${day}</label
          >`,
      )}
    </fieldset>`;
}
