import type { Context } from 'hono';
import { html } from 'hono/html';
import { factsOf, nameOf, type Facts } from '../../src/dead-letters/facts.ts';
import type { FoundDeadLetter } from '../../src/dead-letters/take.ts';
import { printable } from '../../src/domain/faults.ts';
import { valueAt } from '../../src/domain/json.ts';
import type { DeadLetter, DeadLetterReason, FailedAttempt } from '../../src/notification/outcome.ts';
import { newerText } from '../../src/operations/taking.ts';
import { cut } from '../../src/terminal/text.ts';
import {
  badge,
  count,
  counted,
  facts,
  notificationLink,
  page,
  recipientLink,
  section,
  table,
  when,
} from '../layout.ts';
import type { Html } from '../layout.ts';
import type { ConsoleEnv } from '../session.ts';
import { previewPath } from './dead-letter-choice.ts';

/** What each reason means, and what would help. docs/errors.md and docs/dead-letters.md explain this in more detail. */
export const REASONS: Readonly<Record<DeadLetterReason, { readonly happened: string; readonly help: string }>> = {
  invalid: {
    happened: 'The data does not fit; the message names every fault.',
    help: 'Correct the producer, enqueue it anew, then discard this.',
  },
  unregistered: {
    happened: 'The app is gone from the device.',
    help: 'Discard it, and remove the token from your data. A replay would fail again.',
  },
  'bad-token': {
    happened: 'The token is malformed, or of another app or environment.',
    help: 'Check APNS_TOPIC, APNS_ENDPOINT and the Firebase project. If one was wrong, replay; else discard.',
  },
  rejected: {
    happened: 'The provider refused the content, such as a payload that is too large.',
    help: 'Correct the producer, then discard this. A replay would be refused again.',
  },
  'provider-not-configured': {
    happened: 'The workers have no credentials for the platform, or for the app there.',
    help: 'Configure them, restart the workers, then replay.',
  },
  'provider-auth': {
    happened: 'The provider refused the credentials or the app for a day.',
    help: 'Correct the credentials, then replay.',
  },
  'attempts-exhausted': {
    happened: 'All attempts failed, or too often it was unknown whether it alerted.',
    help: 'Replay when the provider works again.',
  },
  ambiguous: {
    happened: 'With AT_MOST_ONCE it is not tried again, since it may have alerted.',
    help: 'Replay if a second alert is no problem; else discard.',
  },
  stalled: {
    happened: 'Its workers died more than MAX_STALLS times.',
    help: 'Find out why before you replay. A replay may alert once more.',
  },
  'throttled-too-long': {
    happened: 'Its slot lay beyond LIMIT_MAX_WAIT, or LIMIT_MAX_PENDING waited already.',
    help: 'Replay it later, or raise the limits first.',
  },
};

/** The bounds of what is shown of one dead letter, since any program may have written it. */
const [MOST_ATTEMPTS, MOST_DEVICES, MOST_ERROR, MOST_MESSAGE, MOST_TEXT] = [100, 20, 500, 2_000, 4_000];

export function letterPage(
  c: Context<ConsoleEnv>,
  found: FoundDeadLetter,
  { now, showTexts }: { readonly now: number; readonly showTexts: boolean },
): Response | Promise<Response> {
  const seen = factsOf(found);
  const { reason, deadAt, generation } = seen;
  const name = shortened(nameOf(seen), 300);
  return page(c, {
    title: `Dead letter ${name}`,
    section: '/dead-letters',
    body: html`<p class="crumbs"><a href="/dead-letters">Dead letters</a></p>
      <h1><span class="id">${name}</span> ${badge(reason, 'bad')}</h1>
      ${found.newer === undefined ? '' : html`<p class="warning">${NEWER}.</p>`}
      ${c.get('user').role === 'operator' && found.newer === undefined ? actions(found) : ''}
      <div class="columns">
        ${section(
          'Why',
          html`<p class="message">${shortened(seen.message, MOST_MESSAGE)}</p>
            ${facts([
              ['What happened', REASONS[reason].happened],
              ['What helps', html`<strong>${REASONS[reason].help}</strong>`],
              ['Died', when(deadAt, now)],
              ['Replayed before', generation === 0 ? 'never' : counted(generation, 'time')],
            ])}`,
        )}
        ${section('Notification', notification(seen, found.letter, now))}
      </div>
      ${section('Devices', devices(seen, now))} ${section('Failed attempts', attempts(seen, now))}
      ${section('Texts', showTexts ? texts(found) : html`<p class="hint">${HIDDEN}</p>`)}`,
  });
}

const NEWER = newerText(1, 'replayed or discarded') ?? '';
const HIDDEN = 'Titles, texts and data are not shown. A console that is started with --show-texts shows them.';

function actions({ shard, id }: FoundDeadLetter): Html {
  const which = [{ shard, id }];
  return html`<p class="actions">
    <a class="button" href="${previewPath({ verb: 'replay', which })}">Replay…</a>
    <a class="button quiet" href="${previewPath({ verb: 'discard', which })}">Discard…</a>
  </p>`;
}

function notification({ notification: seen, platforms, apps }: Facts, { story }: DeadLetter, now: number): Html {
  const { id, recipientId, category, priority, expiresAt, sizes } = seen;
  const { alert, data, all } = sizes;
  const parts = [
    alert !== undefined && `alert ${alert}`,
    data !== undefined && `data ${data}`,
    `all ${count(all)} bytes`,
  ];
  const passes = story?.passes === undefined ? '' : `: ${counted(story.passes.length, 'pass', 'passes')}`;
  const link = html`<a href="/notifications/${encodeURIComponent(id ?? '')}">Its whole story</a>${passes}`;
  return html`${facts([
    ['Id', id === undefined ? undefined : notificationLink(id)],
    ['Recipient', recipientId === undefined ? undefined : recipientLink(recipientId)],
    ['Enqueued', story && when(story.firstEnqueuedAt, now)],
    ['Enqueued by', story?.enqueuedBy],
    ['Category', category],
    ['Priority', priority],
    ['Expires', expiresAt === undefined ? undefined : when(expiresAt, now)],
    ['Platforms left', platforms?.join(', ')],
    ['Apps', apps?.slice(0, MOST_DEVICES).join(', ')],
    ['Size', parts.filter((part) => part !== false).join(', ')],
  ])}
  ${id === undefined ? html`<p class="hint">Its data names no usable id.</p>` : html`<p>${link}</p>`}`;
}

/** For each device, whether it was alerted, how often it failed, and how it failed last. */
function devices({ notification: { devices: labels = [] }, delivered = [], attempts: all }: Facts, now: number): Html {
  const tried = new Map<string, FailedAttempt[]>();
  for (const attempt of all) {
    const label = attempt.device ?? '';
    tried.set(label, [...(tried.get(label) ?? []), attempt]);
  }
  const names = [...new Set([...labels, ...tried.keys()])];
  const rows = names.slice(0, MOST_DEVICES).map((label) => {
    const last = tried.get(label)?.at(-1);
    return [
      label === '' ? 'none was tried' : html`<span class="id">${shortened(label, 80)}</span>`,
      delivered.includes(label) ? badge('alerted: a replay skips it', 'ok') : badge('not alerted', 'bad'),
      count(tried.get(label)?.length ?? 0),
      last === undefined ? '' : html`${shortened(last.error, 160)} ${when(last.at, now)}`,
    ];
  });
  const more = names.length - rows.length;
  return html`${table(
    ['Device', 'State', { name: 'Failed attempts', isNumber: true }, 'The last one'],
    rows,
    'Its data names no device that can be read.',
  )}${more > 0 ? html`<p class="hint">And ${count(more)} more.</p>` : ''}`;
}

function attempts({ attempts: all }: Facts, now: number): Html {
  const rows = all
    .slice(-MOST_ATTEMPTS)
    .toReversed()
    .map(({ at, device, error }) => [when(at, now), shortened(device ?? '–', 80), shortened(error, MOST_ERROR)]);
  return table(['When', 'Device', 'Error'], rows, 'No attempt failed before.');
}

function texts({ letter: { notification: raw } }: FoundDeadLetter): Html {
  const shown = (['alert', 'data'] as const).map((name) => [name, valueAt(raw, name)] as const);
  const rows = shown.filter(([, value]) => value !== undefined);
  if (rows.length === 0) return html`<p class="empty">It has neither an alert nor data that can be read.</p>`;
  return html`${rows.map(
    ([name, value]) =>
      html`<h3>${name}</h3>
        <pre>${JSON.stringify(value, null, 2).slice(0, MOST_TEXT)}</pre>`,
  )}`;
}

/** The text, made safe to show, with at most `most` characters. */
export function shortened(text: string, most: number): string {
  return cut(printable(text.slice(0, most + 1)), most);
}
