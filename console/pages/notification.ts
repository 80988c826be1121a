import { html } from 'hono/html';
import { printable } from '../../src/domain/faults.ts';
import type { StoryPass } from '../../src/notification/story.ts';
import { passText, sendsText } from '../../src/operations/pass-words.ts';
import type { Told } from '../../src/operations/story.ts';
import { NO_STORIES } from '../../src/operations/why.ts';
import type { NotificationStatus } from '../../src/queue/status.ts';
import {
  badge,
  duration,
  exact,
  facts,
  notice,
  page,
  recipientLink,
  section,
  table,
  when,
  type Html,
  type Tone,
} from '../layout.ts';
import type { Page } from '../parts.ts';

const REFRESH_MS = 5_000;

/** The story of one notification: why it waits, or why it was late. */
export const notificationPage: Page = (app, { tell }) => {
  app.get('/notifications/:id', async (c) => {
    const id = c.req.param('id');
    const told = await tell(id);
    const { status, story } = told;
    if (status.state === 'unknown') return notice(c, { title: `No notification ${id}`, advice: story.why.join(' ') });
    const isOver = status.state === 'ended' || status.state === 'dead-lettered';
    return page(c, {
      title: id,
      section: '/search',
      ...(!isOver && { refreshMs: REFRESH_MS }),
      body: html`<h1>Notification <span class="id">${id}</span></h1>
        <div id="live-state" data-live>${stateBadge(status)}</div>
        ${section('Why', why(told), 'why')} ${section('Facts', factsOf(told), 'facts')}
        ${section('Passes', passes(told), 'passes')} ${linksOf(id, told)}`,
    });
  });
};

const TONES: Readonly<Record<string, Tone>> = {
  delivered: 'ok',
  retracted: 'ok',
  waiting: 'warn',
  sending: 'warn',
  'dead-lettered': 'bad',
};

function stateBadge(status: NotificationStatus): Html {
  const state = status.state === 'ended' ? status.outcome : status.state;
  return badge(state === 'dead-lettered' ? 'dead letter' : state, TONES[state] ?? 'plain');
}

function why({ story }: Told): Html {
  return html`${story.why.map((sentence) => html`<p>${sentence}</p>`)}`;
}

function factsOf({ now, status, story }: Told): Html {
  const { recipientId, category, enqueuedAt, enqueuedBy, replayedAt } = story;
  const isEnded = status.state === 'ended';
  const devices = isEnded ? Object.entries(status.devices).map(([label, state]) => `${label} ${state}`) : [];
  return facts([
    ['Recipient', recipientLink(recipientId)],
    ['Category', category],
    ['Enqueued', when(enqueuedAt, now)],
    ['By', enqueuedBy],
    ['Replayed', replayedAt === undefined ? undefined : when(replayedAt, now)],
    ['Sent', isEnded && status.sentAt !== undefined ? when(status.sentAt, now) : undefined],
    ['Waited', isEnded ? duration(status.waitMs) : undefined],
    ['Devices', devices.length === 0 ? undefined : devices.join(', ')],
  ]);
}

function passes({ now, story }: Told): Html {
  const { passes: all, passesLeftOut, recorded } = story;
  const rows = all.map((pass, index) => rowOf(now, pass, all[index - 1]));
  const older = passesLeftOut === 0 ? '' : html`<p class="hint">Not kept: ${passesLeftOut} older.</p>`;
  const empty = recorded ? 'No worker has looked at it yet.' : NO_STORIES;
  return html`${older}${table(['When', 'Worker', 'What', 'Sends'], rows, empty)}`;
}

function rowOf(now: number, pass: StoryPass, before: StoryPass | undefined): (Html | string)[] {
  return [
    html`<time datetime="${exact(pass.at)}">${exact(pass.at)}</time>`,
    printable(pass.worker ?? ''),
    passText(now, pass, before),
    sendsText(pass),
  ];
}

/** Links to the pages where an operator goes next. */
function linksOf(id: string, { status, story: { recipientId } }: Told): Html {
  const letter = html`<a href="/dead-letters?id=${encodeURIComponent(id)}">Its dead letter</a>`;
  const line = html`<a href="/recipients/${encodeURIComponent(recipientId ?? '')}"
    >All of its recipient, and what can be done</a
  >`;
  return html`<p>${status.state === 'dead-lettered' ? letter : ''} ${recipientId === undefined ? '' : line}</p>`;
}
