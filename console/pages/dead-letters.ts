/**
 * Dead letters: the files of these pages, in the order in which an operator uses the pages.
 *
 * - dead-letters.ts: the list, by reason and time
 * - dead-letter.ts: one dead letter, and what each reason means
 * - dead-letter-choice.ts: which dead letters a query or a form means
 * - dead-letter-runs.ts: the preview of a run, and the run itself
 */
import type { Context } from 'hono';
import { html } from 'hono/html';
import { factsOf, nameOf } from '../../src/dead-letters/facts.ts';
import { lookAtNewest, type Look, type ReasonTimes, type Times } from '../../src/dead-letters/look.ts';
import type { Run } from '../../src/dead-letters/runs.ts';
import type { DeadLetterFilter, FoundDeadLetter } from '../../src/dead-letters/take.ts';
import { fieldsOf } from '../../src/operations/fields.ts';
import { FILTER, filterFields, pickText } from '../../src/operations/taking.ts';
import type { Page } from '../parts.ts';
import { badge, count, exact, notice, page, recipientLink, section, table, when } from '../layout.ts';
import type { Html } from '../layout.ts';
import type { ConsoleEnv } from '../session.ts';
import { deadLettersText, filterIn, previewPath } from './dead-letter-choice.ts';
import { addRunPages, runsTable } from './dead-letter-runs.ts';
import { letterPage, REASONS, shortened } from './dead-letter.ts';

const PER_PAGE = 50;
/** This many dead letters are looked at for one page, which takes a fifth of a second. */
const MOST_LOOKED_AT = 5_000;
/** Further pages would be empty. */
const MOST_PAGES = MOST_LOOKED_AT / PER_PAGE;

export const deadLetterPages: Page = (app, parts) => {
  const { showTexts, takes } = parts;
  addRunPages(app, parts);

  app.get('/dead-letters', async (c) => {
    const query = new URL(c.req.url).searchParams;
    // A form sends its empty fields too; without them the address is shorter.
    if ([...query].some(([, value]) => value === '')) return c.redirect(listPath(c), 303);
    const { shards, now } = await takes.open();
    const filter = filterIn(query, now);
    const number = pageNumberOf(query.get('page'));
    const look = await lookAtNewest(shards, {
      ...{ filter, now, offset: (number - 1) * PER_PAGE, limit: PER_PAGE, most: MOST_LOOKED_AT },
    });
    return page(c, {
      title: 'Dead letters',
      section: '/dead-letters',
      body: html`<h1>Dead letters</h1>
        <p>${summaryOf(look, filter, now)}</p>
        ${goingOn(takes.list(), now)}
        ${look.of === 0 ? html`<p class="empty">${NONE}</p>` : overview(c, { look, filter, now, number })}`,
    });
  });

  app.get('/dead-letters/one', async (c) => {
    const { id = '', shard } = c.req.query();
    const { shards, now } = await takes.open();
    for (const [place, deadLetters] of shards.entries()) {
      const stored = shard === undefined || shard === String(place) ? await deadLetters.find(id) : undefined;
      if (stored === undefined) continue;
      return letterPage(c, { ...stored, shard: place }, { now, showTexts });
    }
    return notice(c, {
      title: 'No such dead letter',
      advice: 'It was replayed or discarded, or it has become too old. Search for the notification by its id.',
    });
  });
};

/** The address of the list as it is, but for these fields. It has no other fields than the list reads, and no empty ones. */
function listPath(c: Context<ConsoleEnv>, change: Readonly<Record<string, string>> = {}): string {
  const fields = Object.entries({ ...c.req.query(), ...change });
  const kept = fields.filter(([name, value]) => value !== '' && (name === 'page' || Object.hasOwn(FILTER.shape, name)));
  const query = new URLSearchParams(kept).toString();
  return query === '' ? '/dead-letters' : `/dead-letters?${query}`;
}

function pageNumberOf(text: string | null): number {
  const number = /^[1-9]\d{0,4}$/.test(text ?? '') ? Number(text) : 1;
  return Math.min(number, MOST_PAGES);
}

const NONE =
  'There are no dead letters: nothing is to be done. A notification that cannot be delivered comes here with its reason.';

function summaryOf(look: Look, filter: DeadLetterFilter, now: number): Html {
  const { matched, lookedAt, of, lookedBackTo } = look;
  const isFiltered = Object.keys(filter).length > 0;
  if (lookedBackTo === undefined) {
    return html`${isFiltered ? `${count(matched)} of ${deadLettersText(of)}` : deadLettersText(of)}`;
  }
  const older = `/dead-letters?${new URLSearchParams(filterFields({ ...filter, untilMs: lookedBackTo })).toString()}`;
  return html`${deadLettersText(of)}. ${isFiltered ? `${count(matched)} match of` : 'Below are'} the
    ${filter.untilMs === undefined ? 'newest' : 'newest until then,'} ${count(lookedAt)}, back to
    ${when(lookedBackTo, now)}. <a href="${older}">Look at older ones</a>`;
}

function goingOn(all: readonly Run[], now: number): Html {
  return all.length === 0 ? html`` : section('Replays and discards', runsTable(all.slice(0, 5), now));
}

interface Shown {
  readonly look: Look;
  readonly filter: DeadLetterFilter;
  readonly now: number;
  /** The number of the page, from 1. */
  readonly number: number;
}

function overview(c: Context<ConsoleEnv>, shown: Shown): Html {
  const { look, filter, now } = shown;
  const isOperator = c.get('user').role === 'operator';
  return html`<div class="columns">
      ${section('By reason', reasons(c, shown, isOperator))} ${section('By time', times(look.times, now))}
    </div>
    ${section('Which', html`${filterForm(c, filter)}${filter.reason === undefined ? '' : helpFor(filter.reason)}`)}
    ${section(
      filter.untilMs === undefined ? 'Newest first' : 'Newest of that time first',
      html`${letters(look.found, now, isOperator, isOperator ? allOfThem(shown) : '')} ${pager(c, shown)}`,
    )}`;
}

/** A row for each reason, with what an operator can do to all dead letters of that reason. */
function reasons(c: Context<ConsoleEnv>, { look, filter }: Shown, isOperator: boolean): Html {
  const most = Math.max(1, ...look.reasons.flatMap(({ hours }) => hours));
  const rows = look.reasons.map((each) => {
    const { reason } = each;
    const which = { ...filter, reason };
    return [
      html`<a href="${listPath(c, { reason, page: '' })}" title="${REASONS[reason].happened}">${reason}</a>`,
      count(each.count),
      spark(each, most),
      ...(isOperator
        ? [
            html`<span class="links">
              <a href="${previewPath({ verb: 'replay', which })}" aria-label="Replay ${reason}…">Replay…</a>
              <a href="${previewPath({ verb: 'discard', which })}" aria-label="Discard ${reason}…">Discard…</a>
            </span>`,
          ]
        : []),
    ];
  });
  const columns = ['Reason', { name: 'Count', isNumber: true }, 'Last day', ...(isOperator ? [''] : [])];
  return table(columns, rows, 'No dead letter matches.');
}

function spark({ hours, reason }: ReasonTimes, most: number): Html {
  const lastDay = hours.reduce((a, b) => a + b, 0);
  return bars(hours, { label: `${reason}: ${deadLettersText(lastDay)} in the last day`, most, className: 'spark' });
}

function times({ minutes, hours, older }: Times, now: number): Html {
  const drawn = (counts: readonly number[], of: string, part: string, unitMs: number): Html => {
    const all = counts.reduce((a, b) => a + b, 0);
    const most = all === 0 ? '' : `, at most ${count(Math.max(...counts))} in ${part}`;
    return html`<figure>
      <figcaption><strong>Last ${of}</strong> ${deadLettersText(all)}${most}</figcaption>
      ${bars(counts, { label: `${deadLettersText(all)} in the last ${of}`, unitMs, now })}
      <p class="ends"><span>1 ${of} ago</span><span>now</span></p>
    </figure>`;
  };
  return html`${drawn(minutes, 'hour', 'a minute', 60_000)} ${drawn(hours, 'day', 'an hour', 3_600_000)}
    <p class="hint">Older than a day: ${count(older)}</p>`;
}

interface BarsOptions {
  readonly label: string;
  /** The number that the highest bar stands for. Default: the highest number. */
  readonly most?: number;
  readonly className?: string;
  /** The length of time that a bar stands for, shown on hover. */
  readonly unitMs?: number;
  readonly now?: number;
}

const [BAR_WIDTH, BAR_GAP, HEIGHT] = [6, 2, 40];

/** Draws bars; the last one is now. */
function bars(counts: readonly number[], options: BarsOptions): Html {
  const { label, most = Math.max(1, ...counts), className = 'bars', unitMs, now = 0 } = options;
  const all = counts.map((value, place) => {
    const height = value === 0 ? 1 : Math.max(3, Math.round((value / most) * HEIGHT));
    const at = unitMs === undefined ? 0 : (Math.floor(now / unitMs) - (counts.length - 1 - place)) * unitMs;
    const title = unitMs === undefined ? '' : html`<title>${exact(at).slice(0, 16)}Z: ${count(value)}</title>`;
    const x = place * (BAR_WIDTH + BAR_GAP);
    return html`<rect class="${value === 0 ? 'zero' : ''}" x="${x}" y="${HEIGHT - height}" width="${BAR_WIDTH}" height="${height}">${title}</rect>`; // prettier-ignore
  });
  const width = counts.length * (BAR_WIDTH + BAR_GAP) - BAR_GAP;
  return html`<svg class="${className}" viewBox="0 0 ${width} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="${label}">${all}</svg>`; // prettier-ignore
}

/** The form of the filter. Its fields have the names of the flags, and show what was typed. */
function filterForm(c: Context<ConsoleEnv>, filter: DeadLetterFilter): Html {
  const given = c.req.query();
  const fields = fieldsOf({ fields: FILTER }).map(({ name, choices, example }) => {
    const value = given[name] ?? '';
    const input = html`<input name="${name}" value="${value}" placeholder="${example ?? ''}" maxlength="300" />`;
    const options = choices?.map((each) => html`<option ${each === value ? html`selected` : ''}>${each}</option>`);
    const select = html`<select name="${name}">
      <option value="">any</option>
      ${options}
    </select>`;
    return html`<label>${name} ${options === undefined ? input : select}</label>`;
  });
  const isFiltered = Object.keys(filter).length > 0;
  return html`<form class="fields" action="/dead-letters">
    ${fields}
    <p><button>Filter</button> ${isFiltered ? html`<a class="button quiet" href="/dead-letters">Clear</a>` : ''}</p>
  </form>`;
}

function helpFor(reason: keyof typeof REASONS): Html {
  const { happened, help } = REASONS[reason];
  return html`<p class="help">${badge(reason)} ${happened} <strong>${help}</strong></p>`;
}

/** Links to actions on all dead letters that match, also those on other pages and those that were not looked at. */
function allOfThem({ look, filter }: Shown): Html {
  if (look.matched === 0) return html``;
  const all = look.lookedBackTo === undefined ? `all ${count(look.matched)}` : 'all';
  const what = Object.keys(filter).length === 0 ? all : `${all} that match`;
  return html`<a class="button quiet" href="${previewPath({ verb: 'replay', which: filter })}">Replay ${what}…</a>
    <a class="button quiet" href="${previewPath({ verb: 'discard', which: filter })}">Discard ${what}…</a>`;
}

function letters(found: readonly FoundDeadLetter[], now: number, isOperator: boolean, more: Html | string): Html {
  if (found.length === 0) return html`<p class="empty">No dead letter matches. Take something out of the filter.</p>`;
  const rows = found.map((each) => {
    const facts = factsOf(each);
    const { reason, attempts, generation, platforms = [], apps = [], notification } = facts;
    const name = shortened(nameOf(facts), 80);
    const where = `/dead-letters/one?${new URLSearchParams({ shard: String(each.shard), id: each.id }).toString()}`;
    const kinds = [...platforms, ...apps.slice(0, 3)].join(', ');
    return [
      ...(isOperator
        ? [html`<input type="checkbox" name="pick" value="${pickText(each)}" aria-label="Choose ${name}" />`]
        : []),
      html`<a class="id" href="${where}">${name}</a>`,
      badge(reason),
      when(facts.deadAt, now),
      recipientLink(notification.recipientId),
      count(attempts.length),
      count(generation),
      kinds || '–',
      html`<span class="message">${shortened(facts.message, 120)}</span>`,
    ];
  });
  const number = (name: string) => ({ name, isNumber: true });
  const columns = [
    'Dead letter',
    'Reason',
    'Died',
    'Recipient',
    number('Attempts'),
    number('Replays'),
    'To',
    'Message',
  ];
  if (!isOperator) return html`<div class="letters">${table(columns, rows)}</div>`;
  return html`<form class="letters" method="post" action="/dead-letters/preview">
    ${table([{ name: 'Choose' }, ...columns], rows)}
    <p class="actions">
      <button name="verb" value="replay">Replay chosen…</button>
      <button name="verb" value="discard" class="quiet">Discard chosen…</button>
      ${more}
    </p>
  </form>`;
}

function pager(c: Context<ConsoleEnv>, { look, number }: Shown): Html {
  const pages = Math.min(MOST_PAGES, Math.ceil(look.matched / PER_PAGE));
  if (pages <= 1) return html``;
  const link = (to: number, text: string, rel: string): Html =>
    html`<a rel="${rel}" href="${listPath(c, { page: to === 1 ? '' : String(to) })}">${text}</a>`;
  return html`<nav class="pager" aria-label="Pages of the list">
    ${number > 1 ? link(number - 1, '← Newer', 'prev') : ''}
    <span>Page ${number} of ${pages}</span>
    ${number < pages ? link(number + 1, 'Older →', 'next') : ''}
  </nav>`;
}
