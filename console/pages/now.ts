import { html } from 'hono/html';
import { namesOf, serviceOfQuota } from '../../src/notification/device.ts';
import { parseRules } from '../../src/domain/limits.ts';
import { LATENESS_BOUNDS_MS, seldom } from '../../src/domain/time.ts';
import { breakerText, callWorker, leastOf, unreachableText, type StatusResult } from '../../src/operations/status.ts';
import type { SeenWorker } from '../../src/queue/workers.ts';
import { createRedisQuota } from '../../src/quota/redis-quota.ts';
import type { QuotaUse } from '../../src/quota/quota.ts';
import type { ConsoleParts, Page } from '../parts.ts';
import { badge, count, counted, duration, page, recipientLink, section, table, when, type Html } from '../layout.ts';
import { isWedged, type Sample } from '../samples.ts';
import { DURATION, lineChart, NOTIFICATIONS, PER_SECOND, type Chart, type Line, type Unit } from './chart.ts';

const REFRESH_MS = 5_000;
/** Several people may look at the same time, so Redis is asked at most this often. */
const LOOK_EVERY_MS = 2_000;

/** The state of everything now, and charts of the last hour. */
export const nowPage: Page = (app, parts) => {
  const look = seldom(LOOK_EVERY_MS, () => lookAt(parts));
  app.get('/', async (c) => {
    const seen = await look();
    const samples = parts.sampler.samples();
    return page(c, {
      title: 'Now',
      section: '/',
      refreshMs: REFRESH_MS,
      body: html`<h1>Now</h1>
        <div id="live-verdict" data-live role="status">${verdict(seen)}</div>
        <div id="live-tiles" data-live class="tiles">${tiles(seen, samples)}</div>
        ${section('The last hour', charts(samples))}
        <div class="columns">
          ${section('What waits', waits(seen), 'waits')} ${section('Waiting longest', longest(seen), 'longest')}
          ${section('Dead letters by reason', dead(seen), 'dead')} ${section('Providers', providers(seen), 'providers')}
        </div>
        ${section('Workers', workers(seen), 'workers')}`,
    });
  });
};

interface Seen extends StatusResult {
  readonly quotas: readonly UsedQuota[];
}

interface UsedQuota {
  readonly account: string;
  readonly used: readonly QuotaUse[];
}

async function lookAt({ limiterConnection, status: look, prefix }: ConsoleParts): Promise<Seen> {
  const status = await look();
  const rules = new Map(
    status.workers
      .filter(({ alive }) => alive)
      .flatMap(({ quotas = [] }) => quotas.map((each) => [each.account, each.rules])),
  );
  const quotas = [...rules].map(async ([account, text]): Promise<UsedQuota[]> => {
    const parsed = parseRules(text, 'quota', MOST_QUOTA);
    if (!parsed.ok) return [];
    const terms = { redis: limiterConnection, name: account, rules: parsed.rules, prefix };
    await using quota = createRedisQuota(terms);
    return [{ account, used: await quota.used() }];
  });
  return { ...status, quotas: (await Promise.all(quotas)).flat() };
}

function verdict(seen: Seen): Html {
  const wedged = seen.workers.filter((worker) => isWedged(worker, seen));
  const faults = [
    ...wedged.map(
      ({ host, pid }) => `${host} (process ${pid}) finishes nothing although notifications are due: restart it`,
    ),
    ...seen.wrong.map(({ kind, text }) => (kind === 'no-worker' ? noWorker(seen) : withCommand(text))),
  ];
  if (faults.length === 0) return html`<p class="verdict ok">${badge('All is well', 'ok')}</p>`;
  return html`<ul class="verdict bad">
    ${faults.map((text) => html`<li>${text}</li>`)}
  </ul>`;
}

function noWorker({ now, workers: [first, ...others] }: Seen): Html {
  const last = others.reduce((latest, worker) => (worker.seenAt > (latest?.seenAt ?? 0) ? worker : latest), first);
  const seen = last && html` The last one, ${last.host} (process ${last.pid}), was seen ${when(last.seenAt, now)}.`;
  return html`<strong>No worker is alive, so nothing is sent.</strong>${seen} Start one: <code>${callWorker()}</code>.
    If one runs, compare its <code>REDIS_URL</code> and <code>QUEUE_PREFIX</code> with those of this console.`;
}

/** A command at the end of a text: `look: pushpacer dead-letters --since 1h`. */
const COMMAND = /(?<=: )(?:npx )?(?:pushpacer|npm run) [^;]+$/;

function withCommand(text: string): Html | string {
  const [command] = COMMAND.exec(text) ?? [];
  return command === undefined ? text : html`${text.slice(0, -command.length)}<code>${command}</code>`;
}

function tiles(seen: Seen, samples: readonly Sample[]): Html {
  const last = samples.at(-1);
  const { now, due, untaken, jobs, deadLetters, workersAlive, noWrites } = seen;
  const waiting = (jobs['delayed'] ?? 0) + (jobs['prioritized'] ?? 0) + (jobs['waiting'] ?? 0);
  const late = samples.findLast(({ lateP99Ms }) => lateP99Ms !== null);
  const dueAge = due.oldestAt === undefined ? 'none is late' : `the oldest for ${duration(now - due.oldestAt)}`;
  return html`${[
    tile('Sent', last === undefined ? '–' : PER_SECOND.write(last.sentPerS), 'in the last 10 s'),
    tile('Waiting', count(waiting), `${count(untaken.count)} new, not taken yet`),
    tile('Due and not taken', count(due.count), dueAge),
    tile(
      'Late by',
      late === undefined ? '–' : upTo(late.lateP99Ms),
      late === undefined ? 'no wake-ups yet' : `p99; p50 ${upTo(late.lateP50Ms)}`,
    ),
    tile(
      'Dead letters',
      count(deadLetters.total),
      `${leastOf(deadLetters)}${count(deadLetters.lastHour)} in the last hour`,
    ),
    workersAlive === 0 && noWrites !== undefined
      ? tile('Workers', '–', 'they cannot write that they are alive')
      : tile('Workers', count(workersAlive), workersAlive === 0 ? 'nothing is sent' : inUse(seen.workers)),
  ]}`;
}

function tile(name: string, value: string, detail: string): Html {
  return html`<div class="tile">
    <span class="name">${name}</span><strong>${value}</strong><span class="detail">${detail}</span>
  </div>`;
}

function upTo(ms: number | null): string {
  if (ms === null) return '–';
  return ms === Infinity ? 'over 10s' : `≤ ${duration(ms)}`;
}

function inUse(workers: readonly SeenWorker[]): string {
  const alive = workers.filter((worker) => worker.alive);
  const [used, of] = [
    alive.reduce((sum, { inHand, asleep }) => sum + inHand - asleep, 0),
    alive.reduce((sum, { concurrency }) => sum + concurrency, 0),
  ];
  return `${count(used)} of ${count(of)} places in use`;
}

/** Wake-ups are counted by classes, so a lateness is the upper end of its class. */
const LATENESS: Unit = { ...DURATION, mark: DURATION.write, write: (ms) => upTo(ms > MOST_LATE_MS ? Infinity : ms) };
const MOST_LATE_MS = LATENESS_BOUNDS_MS.at(-1) ?? 0;

function charts(samples: readonly Sample[]): Html {
  const line = (name: string, valueOf: (sample: Sample) => number | null): Line => ({
    name,
    values: samples.map(valueOf),
  });
  const drawable = (ms: number | null): number | null => (ms === Infinity ? MOST_LATE_MS + 1 : ms);
  const empty = samples.length === 0 ? 'no values yet' : 'no wake-ups in this time';
  const all: readonly Chart[] = [
    {
      ...{ title: 'Sent and requeued', unit: PER_SECOND, empty },
      lines: [line('sent', ({ sentPerS }) => sentPerS), line('requeued', ({ requeuedPerS }) => requeuedPerS)],
    },
    {
      ...{ title: 'Lateness of wake-ups', unit: LATENESS, empty },
      lines: [line('p50', ({ lateP50Ms }) => drawable(lateP50Ms)), line('p99', ({ lateP99Ms }) => drawable(lateP99Ms))],
    },
    { title: 'Waiting', unit: NOTIFICATIONS, empty, lines: [line('waiting', ({ waiting }) => waiting)] },
    {
      ...{ title: 'Oldest due and not taken', unit: { ...DURATION, name: 'age' }, empty },
      lines: [line('age', ({ oldestDueMs }) => oldestDueMs)],
    },
  ];
  const from = samples[0]?.at;
  return html`<div id="live-charts" data-live class="charts">
      ${all.map((each) =>
        lineChart(
          each,
          samples.map(({ at }) => at),
        ),
      )}
    </div>
    <p class="hint" id="live-since" data-live>
      ${from === undefined ? 'The first values come in 20 seconds.' : html`A value every 10 s, since ${when(from, Date.now())}, from when this console runs. Point at a chart to see its values.`}
    </p>`;
}

function waits({ waiting: { byRule, lookedAt, of } }: Seen): Html {
  const rows = Object.entries(byRule).toSorted(([, a], [, b]) => b - a);
  const most = rows[0]?.[1] ?? 1;
  const shown = rows.map(([rule, waiting]) => [rule, bar(waiting / most), count(waiting)]);
  const partial =
    lookedAt < of ? html`<p class="hint">Of the ${count(lookedAt)} that are due first; ${count(of)} wait.</p>` : '';
  return html`${table(['For', '', { name: 'Notifications', isNumber: true }], shown, 'Nothing waits for a slot or a time.')}${partial}`;
}

function bar(share: number): Html {
  return html`<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
    <rect width="${Math.max(1, Math.round(share * 100))}" height="8" rx="2" />
  </svg>`;
}

function longest({ waiting: { recipients }, now }: Seen): Html {
  const rows = recipients.map(({ recipientId, waiting, since, until }) => [
    recipientLink(recipientId),
    count(waiting),
    when(since, now),
    when(until, now),
  ]);
  const columns = ['Recipient', { name: 'Waiting', isNumber: true }, 'Since', 'Last one'];
  return table(columns, rows, 'Nobody waits.');
}

function dead({ deadLetters: { byReason, total, lookedAt, lastHourByReason } }: Seen): Html {
  const rows = Object.entries(byReason)
    .toSorted(([, a], [, b]) => b - a)
    .map(([reason, of]) => [
      html`<a href="/dead-letters?reason=${reason}">${reason}</a>`,
      count(of),
      count(lastHourByReason[reason as keyof typeof lastHourByReason] ?? 0),
    ]);
  const columns = ['Reason', { name: 'All', isNumber: true }, { name: 'Last hour', isNumber: true }];
  const partial =
    lookedAt < total ? html`<p class="hint">Of the newest ${count(lookedAt)}; there are ${count(total)}.</p>` : '';
  return html`${table(columns, rows, 'There are no dead letters.')}${partial}`;
}

/** The largest rule of a quota, which may count up to a thousand million. */
const MOST_QUOTA = { max: 1_000_000_000, perMs: 2_678_400_000 };

function providers(seen: Seen): Html {
  const rows = [
    ...seen.breakers.map((breaker) => [badge('stopped', 'bad'), breakerText(breaker, seen)]),
    ...seen.unreachable.map((each) => [badge('unreachable', 'bad'), unreachableText(each, seen)]),
    ...seen.quotas.flatMap(({ account, used }) =>
      used.map((use) => {
        const share = use.used / use.max;
        const tone = share >= 0.8 ? 'warn' : 'ok';
        const { platform, app, server } = namesOf(serviceOfQuota(account));
        const more = [app, server].flatMap((each) => (each === undefined ? [] : ` (${each})`)).join('');
        const name = `quota of ${platform}${more}: ${count(use.used)} of ${use.rule}`;
        return [badge(`${Math.round(share * 100)} %`, tone), name];
      }),
    ),
  ];
  const none =
    seen.workersAlive === 0
      ? 'No worker is alive that could say whether the providers can be reached.'
      : 'No breaker is open, and every provider that was tried can be reached.';
  return table(['', 'Provider'], rows, none);
}

function workers(seen: Seen): Html {
  const { now, workers: all } = seen;
  const rows = all.map((worker) => [
    worker.host,
    String(worker.pid),
    stateOf(worker, seen),
    worker.version,
    `${worker.inHand - worker.asleep} of ${worker.concurrency}${worker.asleep > 0 ? `, ${worker.asleep} asleep` : ''}`,
    `${Math.round(worker.clockOffsetMs)} ms`,
    when(worker.tally?.lastPassAt, now),
    when(worker.startedAt, now),
    worker.platforms.join(', ') + (worker.appCount > 0 ? `, ${counted(worker.appCount, 'app')}` : ''),
  ]);
  const number = (name: string) => ({ name, isNumber: true });
  const columns = [
    'Host',
    number('Process'),
    'State',
    'Version',
    'Places in use',
    number('Clock offset'),
    'Last pass',
    'Started',
    'Platforms',
  ];
  return table(columns, rows, 'No worker was seen in the last hour.');
}

function stateOf(worker: SeenWorker, seen: Seen): Html {
  if (!worker.alive) return badge(`silent for ${duration(worker.silentMs)}`, 'bad');
  if (isWedged(worker, seen)) return badge('finishes nothing', 'bad');
  return worker.stopping ? badge('stopping', 'warn') : badge('alive', 'ok');
}
