import type { Context } from 'hono';
import { html } from 'hono/html';
import type { Preview } from '../../src/dead-letters/outlook.ts';
import { rateText } from '../../src/dead-letters/pace.ts';
import type { Run, RunState } from '../../src/dead-letters/runs.ts';
import { isList } from '../../src/dead-letters/take.ts';
import { policyText } from '../../src/domain/limits.ts';
import type { TakePreview } from '../../src/operations/take-runs.ts';
import { choiceText, newerText, TAKINGS, type Wish } from '../../src/operations/taking.ts';
import { formOf } from '../forms.ts';
import type { ConsoleApp, ConsoleParts } from '../parts.ts';
import { badge, count, duration, facts, notice, page, recipientLink, section, table, when } from '../layout.ts';
import type { Html, Tone } from '../layout.ts';
import type { ConsoleEnv } from '../session.ts';
import { deadLettersText, fieldsOfWish, wishIn } from './dead-letter-choice.ts';

/** How long a preview looks before it shows what it has seen so far, in milliseconds. */
const LOOK_MS = 4_000;
const REFRESH_MS = 1_000;

/** Adds the routes that preview, start, show and stop a replay or discard. */
export function addRunPages(app: ConsoleApp, { takes }: Pick<ConsoleParts, 'takes'>): void {
  async function previewOf(c: Context<ConsoleEnv>, params: URLSearchParams, wrong?: string): Promise<Response> {
    const opened = await takes.open();
    const { now } = opened;
    params.delete('before'); // the preview looks again, from now on
    const wish = wishIn(params, now);
    const seen = await takes.preview(wish, opened, LOOK_MS);
    const title = titleOf(wish, seen);
    return page(c, {
      title,
      section: '/dead-letters',
      status: wrong === undefined ? 200 : 400,
      body: html`<p class="crumbs"><a href="/dead-letters">Dead letters</a></p>
        <h1>${title}</h1>
        ${wrong === undefined ? '' : html`<p class="wrong" role="alert">${wrong}</p>`}
        ${section('Before it begins', whatItComesTo(wish, seen))}
        ${seen.count > 0 && c.get('user').role === 'operator' ? confirmation(wish, seen) : ''}`,
    });
  }

  app.get('/dead-letters/preview', (c) => previewOf(c, new URL(c.req.url).searchParams));
  app.post('/dead-letters/preview', async (c) => previewOf(c, await formOf(c)));

  app.post('/dead-letters/runs', async (c) => {
    const params = await formOf(c);
    const wish = wishIn(params, (await takes.open()).now);
    const wrong = wrongConfirmation(wish, params);
    if (wrong !== undefined) return previewOf(c, params, wrong);
    const started = await takes.start(wish, c.get('acting')().name);
    if (started.kind === 'full') {
      const advice = `${started.most} go on already. Wait until one has ended, or stop one.`;
      return notice(c, { title: 'Too many at once', advice, status: 409 });
    }
    return c.redirect(`/dead-letters/runs/${started.run.id}`, 303);
  });

  app.get('/dead-letters/runs/:id', async (c) => {
    const run = takes.find(c.req.param('id'));
    if (run === undefined) {
      return notice(c, {
        title: 'No such run',
        advice: 'The console was started again since, or it was long ago. The audit has what it did.',
      });
    }
    return runPage(c, run);
  });

  app.post('/dead-letters/runs/:id/stop', (c) => {
    const id = c.req.param('id');
    takes.stop(id, c.get('acting')().name);
    return c.redirect(`/dead-letters/runs/${encodeURIComponent(id)}`, 303);
  });
}

/** Whether the operator has to type the number. For a single dead letter that was chosen, the button is enough. */
function isTypedWanted({ verb, which }: Wish): boolean {
  return verb === 'discard' && !(isList(which) && which.length === 1);
}

function wrongConfirmation(wish: Wish, params: URLSearchParams): string | undefined {
  const typed = (params.get('typed') ?? '').replaceAll(/[\s,.]/g, '');
  if (!isTypedWanted(wish) || (typed !== '' && typed === params.get('count'))) return undefined;
  return 'Nothing was discarded: the number that was typed is another one. Look at the number again.';
}

function whatItComesTo(wish: Wish, seen: TakePreview): Html {
  const { verb, which, perSecond } = wish;
  const { count: number, recipients, busiest, expired, lastAfterMs, byReason, isWhole, policy, now } = seen;
  const newer = newerText(seen.newer, TAKINGS[verb].past);
  const warning = newer === undefined ? html`` : html`<p class="warning">${newer}.</p>`;
  if (number === 0) {
    if (seen.newer > 0) return warning;
    return isWhole
      ? html`<p class="empty">There are none of these (any more): ${choiceText(which)}.</p>`
      : html`<p class="empty">
          None of these was found in ${duration(LOOK_MS)}: ${choiceText(which)}. There are too many dead letters to look
          at here; the command <code>pushpacer ${verb}</code> looks at all.
        </p>`;
  }
  const reasons = Object.entries(byReason).toSorted(([, a], [, b]) => b - a);
  const atLeast = isWhole ? '' : 'at least ';
  const most = busiest && html`${recipientLink(busiest.recipientId)}: ${count(busiest.count)}`;
  const durationMs = perSecond === Infinity ? 0 : ((number - 1) * 1_000) / perSecond;
  const common = [
    ['Which', choiceText(which)],
    ['How many', `${atLeast}${deadLettersText(number)}`],
    ['By reason', html`${reasons.map(([reason, of]) => html`${badge(reason)} ${count(of)} `)}`],
  ] as const;
  const partial = isWhole
    ? warning
    : html`<p class="warning">
        There are more than can be counted in ${duration(LOOK_MS)}: the numbers are of the oldest ${count(number)}. All
        of them are meant.
      </p>`;
  if (verb === 'discard') {
    return html`${partial}${facts([...common, ['Rate', rateWords(perSecond)]])}
      <p><strong>A discarded dead letter cannot be restored.</strong></p>`;
  }
  return html`${partial}${facts([
      ...common,
      ['To', `${atLeast}${count(recipients)} ${recipients === 1 ? 'recipient' : 'recipients'}`],
      ['Most to one', most],
      ['Expired by then', expired === 0 ? 'none' : `about ${count(expired)}: they will not be sent`],
      ['All are in the queue', durationMs < 1_000 ? 'at once' : html`about ${when(now + durationMs, now)}`],
      [
        'The last one goes out',
        lastAfterMs === undefined ? 'none will be sent' : html`about ${when(now + lastAfterMs, now)}`,
      ],
      ['Rate', rateWords(perSecond)],
      ['Limits', policyText(policy)],
    ])}
    <p class="hint">
      The time is an estimate by the rate and the overall limits. What waits already, limits of a recipient or a
      category, quiet hours and quotas make it later. Devices that were alerted before are skipped.
    </p>
    <p><strong>A replay cannot be taken back: people get the alerts.</strong></p>`;
}

/** `Replay 8 dead letters` */
function titleOf({ verb }: Wish, seen: Preview): string {
  return `${TAKINGS[verb].title} ${seen.isWhole ? '' : 'more than '}${deadLettersText(seen.count)}`;
}

function rateWords(perSecond: number): string {
  return perSecond === Infinity ? 'without a pause' : `${rateText(perSecond)} at most`;
}

/** Two forms: one to look again with another rate, and one to begin. */
function confirmation(wish: Wish, seen: Preview): Html {
  const { verb, perSecond, buriedUntilMs } = wish;
  const hidden = fieldsOfWish(wish).map(
    ([name, value]) => html`<input type="hidden" name="${name}" value="${value}" />`,
  );
  const rate = rateText(perSecond);
  const typed = isTypedWanted(wish)
    ? html`<label
        >Type ${count(seen.count)} to discard them for good
        <input name="typed" inputmode="numeric" autocomplete="off" required size="12"
      /></label>`
    : '';
  return html`<section>
    <h2>${TAKINGS[verb].title} them?</h2>
    <form method="post" action="/dead-letters/preview" class="inline">
      ${hidden}
      <label>Rate <input name="rate" value="${rate}" size="8" placeholder="50/s, 30/m, off" required /></label>
      <button class="quiet">Look again</button>
    </form>
    <form method="post" action="/dead-letters/runs" class="inline">
      ${hidden}
      <input type="hidden" name="rate" value="${rate}" />
      <input type="hidden" name="before" value="${buriedUntilMs}" />
      <input type="hidden" name="count" value="${seen.count}" />
      ${typed}
      <button class="${verb === 'discard' ? 'danger' : ''}">${titleOf(wish, seen)}</button>
      <a class="button quiet" href="/dead-letters">Leave them</a>
    </form>
    <p class="hint">It begins with the oldest, shows how far it is, and can be stopped.</p>
  </section>`;
}

const TONES: Readonly<Record<RunState, Tone>> = { running: 'plain', done: 'ok', stopped: 'warn', failed: 'bad' };

function runPage(c: Context<ConsoleEnv>, run: Run): Response | Promise<Response> {
  const isRunning = run.state === 'running';
  const title = `${TAKINGS[run.verb].title}: ${choiceText(run.which)}`;
  const mayStop = isRunning && c.get('user').role === 'operator';
  return page(c, {
    title,
    section: '/dead-letters',
    ...(isRunning && { refreshMs: REFRESH_MS }),
    body: html`<p class="crumbs"><a href="/dead-letters">Dead letters</a></p>
      <h1>${title}</h1>
      ${isRunning ? html`<noscript><meta http-equiv="refresh" content="2" /></noscript>` : ''}
      ${section('How far it is', progress(run), 'progress')}
      <div id="live-stop" data-live>
        ${
          mayStop
            ? html`<form method="post" action="/dead-letters/runs/${run.id}/stop">
                <button class="danger">Stop</button>
                <span class="hint">What is not ${TAKINGS[run.verb].past} yet stays where it is.</span>
              </form>`
            : ''
        }
      </div>`,
  });
}

function progress(run: Run): Html {
  const { verb, state, of, done, gone, byReason, by, beganAt, endedAt, perSecond, awaySince, error, unsure } = run;
  const now = Date.now();
  const { past } = TAKINGS[verb];
  const reasons = Object.entries(byReason).toSorted(([, a], [, b]) => b - a);
  const isRunning = state === 'running';
  const ofAll = of === undefined ? '' : `of ${count(of)} `;
  const shown = isRunning && of === undefined ? 'counting…' : `${count(done)} ${ofAll}${past}`;
  // While the dead letters are counted, the bar moves without a value.
  const value = isRunning && of === undefined ? '' : html`value="${of === 0 ? 1 : done + gone}"`;
  return html`<p class="progress">${badge(state, TONES[state])} <strong>${shown}</strong></p>
    <progress max="${Math.max(1, of ?? 1)}" ${value} aria-label="${shown}"></progress>
    ${awaySince === undefined ? '' : html`<p class="warning">Redis does not answer since ${when(awaySince, now)}. It goes on when Redis is back.</p>`}
    ${error === undefined ? '' : html`<p class="wrong" role="alert">${error}. What is left is still there: start it again.</p>`}
    ${!isRunning && unsure !== undefined ? html`<p class="warning">Of <span class="id">${unsure}</span> it is not known whether it was ${past}.</p>` : ''}
    ${facts([
      ['By', by],
      ['Began', when(beganAt, now)],
      ['Ended', endedAt === undefined ? undefined : when(endedAt, now)],
      ['Rate', rateWords(perSecond)],
      [
        'By reason',
        reasons.length === 0
          ? undefined
          : html`${reasons.map(([reason, each]) => html`${badge(reason)} ${count(each)} `)}`,
      ],
      ['Gone before', gone === 0 ? undefined : `${count(gone)}: another one had taken them`],
    ])}
    ${isRunning ? '' : html`<p><a href="/audit">The audit</a> has it too. <a href="${listPath(run)}">What is there now</a></p>`}`;
}

function listPath({ verb, which }: Run): string {
  if (isList(which)) return '/dead-letters';
  const query = new URLSearchParams(fieldsOfWish({ verb, which }));
  for (const name of ['verb', 'all']) query.delete(name);
  return `/dead-letters?${query.toString()}`;
}

/** The runs of this console, the newest first. */
export function runsTable(all: readonly Run[], now: number): Html {
  const rows = all.map(({ id, verb, which, state, done, of, by, beganAt }) => [
    badge(state, TONES[state]),
    html`<a href="/dead-letters/runs/${id}">${TAKINGS[verb].title}: ${choiceText(which)}</a>`,
    `${count(done)}${of === undefined ? '' : ` of ${count(of)}`}`,
    by,
    when(beganAt, now),
  ]);
  return table(['State', 'What', { name: 'Done', isNumber: true }, 'By', 'Began'], rows);
}
