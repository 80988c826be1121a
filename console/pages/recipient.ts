import { html } from 'hono/html';
import type { Context } from 'hono';
import { isOverHttp, jobIdOfAsk } from '../../src/delivery/lines.ts';
import { faultOf, InputError } from '../../src/domain/faults.ts';
import { policyText, type CountedApart } from '../../src/domain/limits.ts';
import { quietHoursText, quietWindows } from '../../src/domain/quiet-hours.ts';
import type { Cause } from '../../src/limiter/limiter.ts';
import { GRACE_MS, paceOf } from '../../src/limiter/pace.ts';
import { operationOf } from '../../src/operations/catalogue.ts';
import type { SendingJob, WaitingJob } from '../../src/operations/jobs.ts';
import { orderText, type RecipientLook, type WaitingSlot } from '../../src/operations/recipient.ts';
import { notificationIdOf, replayOf } from '../../src/queue/names.ts';
import type { RecipientSeen } from '../../api/backend.ts';
import type { Page } from '../parts.ts';
import type { ConsoleEnv } from '../session.ts';
import {
  badge,
  count,
  counted,
  duration,
  facts,
  notificationLink,
  page,
  section,
  table,
  when,
  type Html,
} from '../layout.ts';
import { actionForms, doneText, noRecipient, recipientActions, recipientIn } from './recipient-actions.ts';
import { RANGES, timeline, usualRange, type Drawn, type Range } from './timeline.ts';

const REFRESH_MS = 5_000;
/** The most waiting notifications in the table. */
const MOST_LISTED = 100;
/** Fewer jobs than `recipient show` looks through, since the page refreshes. */
const MOST_LOOKED_AT = 2_000;

/** One recipient: a drawing of its slots; why each notification waits, and until when; and what an operator can do. */
export const recipientPages: Page = (app, parts) => {
  app.get('/recipients/:id', async (c) => {
    const id = recipientIn(c);
    if (id === undefined) return noRecipient(c);
    const seen = await parts.look(id, { most: MOST_LISTED, mostLookedAt: MOST_LOOKED_AT });
    const { kept } = seen;
    const isOperator = c.get('user').role === 'operator';
    return page(c, {
      title: id,
      refreshMs: REFRESH_MS,
      body: html`<h1>Recipient <span class="id">${id}</span></h1>
        ${done(c)}
        <div id="live-state" data-live class="badges">${state(seen)}</div>
        ${kept.length === 0 ? '' : facts(kept.map(({ label, text }) => [label, text] as const))}
        ${section('Timeline', drawing(c, seen), 'timeline')}
        ${isOperator ? section('Act', actionForms(id, seen.inspection, kept)) : ''}
        ${section('Waiting for a slot', waiting(seen, id, isOperator), 'waiting')}
        ${section('Not waiting for a slot', withoutSlot(seen), 'others')}
        ${section('Limits', limitFacts(seen), 'limits')}`,
    });
  });
  recipientActions(app, parts);
};

function done(c: Context<ConsoleEnv>): Html {
  const operation = operationOf(c.req.query('done'));
  if (operation === undefined) return html``;
  return html`<p class="done" role="status">
    ${doneText(operation, Number(c.req.query('count') ?? 0))} <a href="/audit">Who did what</a>
  </p>`;
}

function state({ inspection, delayed, notTaken, sending, others }: RecipientLook): Html {
  const { now, block, quiet, source, reserved, sent, nextAt } = inspection;
  const waits = reserved.length + delayed.found.length + notTaken.found.length + sending.length;
  if (block === undefined && source === 'limiter' && quiet?.source !== 'stored') {
    if (waits + sent.length + others.length === 0) {
      return html`<p class="empty">
        Nothing is known of this recipient: no alert lately, none waits, no limits or block of its own. If you expected
        some, compare the id with the one that the producer sends.
      </p>`;
    }
  }
  const parts = [
    block && html`${badge('blocked', 'bad')} ends ${when(block.until, now)}: ${block.reason}`,
    quiet?.until !== undefined && html`${badge('quiet now')} ends ${when(quiet.until, now)}`,
    source === 'stored' && badge('limits of its own', 'warn'),
    reserved.length > 0 &&
      badge(`${counted(reserved.length, 'notification')} ${reserved.length === 1 ? 'waits' : 'wait'}`, 'warn'),
    nextAt <= now + MOMENT_MS && badge('a new alert goes at once', 'ok'),
  ];
  return html`${parts.filter((part) => part !== undefined && part !== false).map((part) => html`<span>${part}</span>`)}`;
}

/** `nextAt` is computed one round trip after `now`; a difference this small still counts as now. */
const MOMENT_MS = 20;

function drawing(c: Context<ConsoleEnv>, { inspection }: RecipientLook): Html {
  const { now, policy, block, quiet, sent, reserved } = inspection;
  const drawn: Drawn = {
    ...{ now, reserved, limits: paceOf(policy).limits, blockedUntil: block?.until },
    sent: sent.map(({ at }) => at),
    quiet: (from, until) => (quiet === undefined ? [] : quietWindows(quiet.hours, from, until)),
  };
  const range = rangeIn(c) ?? usualRange(drawn);
  const links = Object.entries(RANGES).map(([value, { name }]) => {
    return html`<a href="${c.req.path}?range=${value}" ${value === range ? html`aria-current="true"` : ''}>${name}</a>`;
  });
  return html`<nav class="ranges" aria-label="How far the timeline reaches">${links}</nav>
    ${timeline(drawn, range)}`;
}

/** The range in the address; undefined if there is none. Throws InputError. */
function rangeIn(c: Context<ConsoleEnv>): Range | undefined {
  const given = c.req.query('range');
  if (given === undefined || isRange(given)) return given;
  throw new InputError('what to draw', [faultOf('range', Object.keys(RANGES).join(', '), given)]);
}

function isRange(text: string): text is Range {
  return Object.hasOwn(RANGES, text);
}

function waiting(
  { inspection, waiting: slots, limitsOf }: RecipientSeen,
  recipientId: string,
  isOperator: boolean,
): Html {
  const { now } = inspection;
  const rows = slots.slice(0, MOST_LISTED).map((slot) => {
    const { at, notification } = slot;
    const [name, id] = nameOf(slot);
    return [
      when(at, now),
      name,
      held(slot, now, limitsOf?.mostOvertaken),
      count(slot.before),
      notification?.category ?? '',
      notification === undefined
        ? html`<span class="none">${jobless(slot)}</span>`
        : when(notification.enqueuedAt, now),
      ...(isOperator ? [cancelLink(recipientId, id)] : []),
    ];
  });
  const columns = ['Goes', 'Notification', 'Held by', { name: 'Before it', isNumber: true }, 'Category', 'Enqueued'];
  const hidden = slots.length - rows.length;
  return html`${table(isOperator ? [...columns, ''] : columns, rows, 'None waits for a slot: a new alert is held by nothing but the limits below.')}
  ${hidden > 0 ? html`<p class="hint">And ${count(hidden)} more behind them.</p>` : ''}`;
}

function jobless({ id }: WaitingSlot): string {
  return isOverHttp(id) ? 'asked for over HTTP' : 'no job';
}

/** How a waiting ask is shown, and its notification's id. No id for another program's ask, which nobody can cancel here. */
function nameOf({ id: askId, notification }: WaitingSlot): readonly [Html, string | undefined] {
  if (askId !== undefined && isOverHttp(askId)) return [html`${askId}`, undefined];
  const jobId = askId === undefined ? undefined : (jobIdOfAsk(askId) ?? askId);
  const id = notification?.id ?? (jobId === undefined ? undefined : notificationIdOf(jobId));
  if (id === undefined) return [html`<span class="none">an id that is too long to be kept</span>`, undefined];
  const replay = notification?.replay ?? (jobId === undefined ? undefined : replayOf(jobId));
  return [html`${notificationLink(id)}${replay === undefined ? '' : ` (replay ${replay})`}`, id];
}

/** The rule that makes a notification wait, and why it waits although it has a slot. */
function held({ at, notification, ...cause }: WaitingSlot, now: number, mostOvertaken: number | undefined): Html {
  if (at < now - GRACE_MS) return html`${badge('due', 'warn')} no worker has taken it yet`;
  const rule = notification?.waitsFor ?? cause.rule;
  const order = orderText(cause, mostOvertaken);
  return html`${badge(RULES[rule] ?? rule, rule === 'block' ? 'bad' : 'plain')}${rule === cause.rule ? ends(cause, now) : ''}${order === '' ? '' : html` ${order}`}`;
}

function ends({ ruleUntil }: Pick<Cause, 'ruleUntil'>, now: number): Html {
  return ruleUntil === undefined ? html`` : html` ends ${when(ruleUntil, now)}`;
}

/** Words for rules whose names alone say too little. */
const RULES: Readonly<Record<string, string>> = {
  quiet: 'quiet hours',
  provider: 'its provider',
  credentials: 'a worker with credentials for it',
  retry: 'another attempt',
  sendAfter: 'its sendAfter',
};

function cancelLink(recipientId: string, id: string | undefined): Html {
  if (id === undefined) return html``;
  const to = `/recipients/${encodeURIComponent(recipientId)}/cancel?notification=${encodeURIComponent(id)}`;
  return html`<a href="${to}" aria-label="Cancel ${id}">Cancel</a>`;
}

function withoutSlot({ inspection, delayed, notTaken, sending, others }: RecipientLook): Html {
  const { now } = inspection;
  const row = (job: Omit<WaitingJob, 'waitsFor'>, what: Html | string): (Html | string)[] => [
    notificationLink(job.id),
    what,
    count(job.attempts),
    job.category ?? '',
    when(job.enqueuedAt, now),
  ];
  const rows = [
    ...sending.map((job) => row(job, sendingText(job, now))),
    ...notTaken.found.map((job) => row(job, 'no worker has taken it yet')),
    ...delayed.found.map((job) =>
      row(job, html`${RULES[job.waitsFor] ?? job.waitsFor}; comes back ${when(job.dueAt, now)}`),
    ),
    ...others.flatMap(({ kind, reserved }) =>
      reserved.map(({ notification, ...slot }) => {
        const [name] = nameOf({ ...slot, ...(notification && { notification }) });
        return [name, html`${APART[kind]}; goes ${when(slot.at, now)}, held by ${slot.rule}`, '', '', ''];
      }),
    ),
  ];
  const shown = rows.slice(0, MOST_LISTED);
  const isAll = delayed.lookedAt >= delayed.of && notTaken.lookedAt >= notTaken.of;
  const bound = `Looked through the first ${count(delayed.lookedAt)} of ${count(delayed.of)} delayed jobs of all recipients, and ${count(notTaken.lookedAt)} of ${count(notTaken.of)} that no worker has taken.`;
  return html`${table(['Notification', 'State', { name: 'Attempts', isNumber: true }, 'Category', 'Enqueued'], shown, 'None is being sent, new, or put back for another reason.')}
  ${rows.length > shown.length ? html`<p class="hint">And ${count(rows.length - shown.length)} more.</p>` : ''}
  ${isAll ? '' : html`<p class="hint">${bound}</p>`}`;
}

const APART: Readonly<Record<CountedApart, string>> = {
  background: 'a background push',
  liveactivity: 'a Live Activity',
};

function sendingText({ at, takenAt }: SendingJob, now: number): Html {
  const since = at ?? takenAt;
  return html`${badge('being sent', 'ok')} ${since === undefined ? '' : when(Math.min(since, now), now)}`;
}

function limitFacts({ inspection, others, categories, limitsOf }: RecipientSeen): Html {
  const { now, policy, source, policyUntil, quiet, sent, nextAt, rule } = inspection;
  const until = policyUntil === undefined ? 'without an end' : html`until ${when(policyUntil, now)}`;
  const longestMs = paceOf(policy).longestMs;
  return facts([
    ['Limits', html`${policyText(policy)}; ${source === 'stored' ? html`of its own, ${until}` : whose(limitsOf)}`],
    ...Object.entries(categories).map(([name, own]) => [`Category ${name}`, policyText(own)] as const),
    [
      'Quiet hours',
      quiet === undefined ? 'none' : `${quietHoursText(quiet.hours)}${quiet.source === 'stored' ? '; its own' : ''}`,
    ],
    ['Sent', longestMs === 0 ? 'not counted' : sentText(sent.length, longestMs, now, sent.at(-1)?.at)],
    ...others.map(
      (each) =>
        [capital(APART[each.kind]), `${count(each.sent.length)} sent, ${count(each.reserved.length)} wait`] as const,
    ),
    [
      'A new alert goes',
      nextAt <= now + MOMENT_MS ? 'at once' : html`${when(nextAt, now)}, held by ${badge(RULES[rule] ?? rule)}`,
    ],
  ]);
}

function sentText(sent: number, longestMs: number, now: number, lastAt: number | undefined): Html {
  const last = lastAt === undefined ? '' : html`, the last one ${when(lastAt, now)}`;
  return html`${count(sent)} within ${duration(longestMs)}${last}`;
}

function whose(limitsOf: RecipientSeen['limitsOf']): string {
  if (limitsOf === undefined) return 'of this console, since no worker is alive';
  const { workers, others } = limitsOf;
  const differ =
    others === 0 ? '' : `; ${counted(others, 'other worker')} ${others === 1 ? 'has' : 'have'} other limits`;
  return `of ${counted(workers, 'worker')}${differ}`;
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
