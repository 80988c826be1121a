import { html } from 'hono/html';
import { HTTPException } from 'hono/http-exception';
import { formatFault, type Fault } from '../../src/domain/faults.ts';
import { policyText, ruleName, type Policy } from '../../src/domain/limits.ts';
import { notificationSchema } from '../../src/notification/notification.ts';
import { formatDuration } from '../../src/domain/time.ts';
import { readMinGap, readRules } from '../../src/operations/catalogue.ts';
import type { Read } from '../../src/operations/fields.ts';
import {
  tryOnRecipient,
  tryOnSample,
  type NowAndThen,
  type SampleWhatIf,
  type TriedLimits,
  type WhatIf,
} from '../../src/operations/what-if.ts';
import type { OpenLimiters } from '../../api/limiters.ts';
import type { ConsoleParts, Page } from '../parts.ts';
import { badge, count, counted, duration, page, recipientLink, section, table, type Html } from '../layout.ts';

/** Tries other limits on what waits now. Nothing is written, so a viewer may do it too, and the address can be shared. */
export const whatIfPage: Page = (app, parts) => {
  const oneAtATime = createTurns();
  app.get('/what-if', async (c) => {
    const limiters = await parts.limiters();
    const given = { ...EMPTY, ...c.req.query() };
    const isAsked = c.req.query('rules') !== undefined;
    const faults: Fault[] = [];
    const asked = isAsked ? readForm(given, limiters, faults) : undefined;
    const isGood = asked !== undefined && faults.length === 0;
    const found = isGood
      ? await oneAtATime((leaving) => tryOut(asked, limiters, parts, leaving), c.req.raw.signal)
      : undefined;
    return page(c, {
      title: 'What if',
      section: '/what-if',
      status: faults.length > 0 ? 400 : 200,
      body: html`<h1>What if</h1>
        <p>Tries other limits on the alerts that wait for a slot now. Nothing is changed.</p>
        ${
          faults.length === 0
            ? ''
            : html`<ul class="verdict bad" role="alert">
                ${faults.map((fault) => html`<li>${formatFault(fault)}</li>`)}
              </ul>`
        }
        ${section('Limits to try', form(given, limiters))}
        ${isGood && found !== undefined ? section('Now and then', result(asked, found)) : ''}`,
    });
  });
};

/**
 * Runs one `work` after the other: trying limits on a sample takes Redis and this process a moment. Rejects, without the work or
 * the rest of it, if `leaving` aborts, since nobody reads the answer.
 */
export function createTurns(): <T>(work: (leaving: AbortSignal) => Promise<T>, leaving: AbortSignal) => Promise<T> {
  let last: Promise<unknown> = Promise.resolve();
  return (work, leaving) => {
    const turn = last
      .then(() => {
        leaving.throwIfAborted();
        return work(leaving);
      })
      .catch((error: unknown) => {
        throw leaving.aborted ? new HTTPException(408, { message: 'the client has left' }) : error;
      });
    last = turn.catch(() => undefined);
    return turn;
  };
}

const EMPTY = { rules: '', gap: '', category: '', recipient: '' };
type Given = Readonly<Record<keyof typeof EMPTY, string>>;

interface Asked {
  readonly tried: TriedLimits;
  readonly policy: Policy;
  readonly category?: string;
  /** Undefined: the limits are tried on a sample. */
  readonly recipientId?: string;
}

function readForm({ category, recipient, ...given }: Given, limiters: OpenLimiters, faults: Fault[]): Asked {
  const known = new Map(Object.entries(limiters.categories));
  const general = category === '' ? limiters.policy : known.get(category);
  if (general === undefined) {
    faults.push({ path: 'category', expected: 'a category that has limits', found: JSON.stringify(category) });
  }
  const policy = limitsIn(given, general ?? limiters.policy, faults);
  const recipientId = recipient.trim();
  if (recipientId !== '' && !notificationSchema.shape.recipientId.safeParse(recipientId).success) {
    faults.push({ path: 'recipient', expected: 'the id of a recipient, or nothing', found: 'another text' });
  }
  return {
    policy,
    tried: category === '' ? { policy } : { categories: { [category]: { ...general, ...policy } } },
    ...(category !== '' && { category }),
    ...(recipientId !== '' && { recipientId }),
  };
}

function limitsIn(given: Pick<Given, 'rules' | 'gap'>, general: Policy, faults: Fault[]): Policy {
  const [rules, gap] = [given.rules.trim(), given.gap.trim()];
  if (rules === '' && gap === '') faults.push({ path: 'rules', expected: 'rules or gap', found: 'neither' });
  const valueOf = <T>(path: string, text: string, read: (text: string) => Read<T>, otherwise: T): T => {
    const result = text === '' ? { value: otherwise } : read(text);
    if ('value' in result) return result.value;
    faults.push(...result.faults.map((fault) => ({ ...fault, path: `${path}${fault.path}` })));
    return otherwise;
  };
  return {
    rules: valueOf('rules', rules, readRules, general.rules),
    minGapMs: valueOf('gap', gap, readMinGap, general.minGapMs),
  };
}

async function tryOut(
  { tried, recipientId }: Asked,
  { foresights }: OpenLimiters,
  { shards, connection }: ConsoleParts,
  signal: AbortSignal,
): Promise<WhatIf | SampleWhatIf> {
  if (recipientId !== undefined) return tryOnRecipient(recipientId, tried, foresights.alert);
  const queues = (await shards.open()).map((shard) => shard.queue);
  return tryOnSample(tried, { foresight: foresights.alert, connection, queues, signal });
}

function form(given: Given, { policy, categories }: OpenLimiters): Html {
  const names = Object.keys(categories);
  const rules = policy.rules.map(ruleName).join(',') || 'none';
  const field = (name: keyof Given, label: string, hint: string, value: string): Html =>
    html`<label class="field"
      ><span>${label}</span><input name="${name}" value="${value}" maxlength="300" /><span class="hint"
        >${hint}</span
      ></label
    >`;
  return html`<form class="act wide" method="get" action="/what-if">
      ${field('rules', 'Rules', 'such as 10/1m,100/1h; none; empty for those in force', given.rules === '' && given.gap === '' ? rules : given.rules)}
      ${field('gap', 'Gap', 'such as 3s; 0 for none; empty for the one in force', given.gap)}
      ${
        names.length === 0
          ? ''
          : html`<label class="field"
              ><span>Of</span
              ><select name="category">
                <option value="">all alerts</option>
                ${names.map((name) => html`<option value="${name}" ${name === given.category ? 'selected' : ''}>${name}</option>`)}
              </select>
              <span class="hint">all alerts, or one category</span></label
            >`
      }
      ${field('recipient', 'Recipient', 'empty for a sample of 1,000 for whom something waits', given.recipient)}
      <button>Try</button>
    </form>
    <p class="hint">
      In force:
      ${policyText(policy)}${names.map((name) => `; ${name}: ${policyText(categories[name] ?? policy)}`).join('')}.
    </p>`;
}

function result(asked: Asked, found: WhatIf | SampleWhatIf): Html {
  const { waiting, longestMs, p50Ms, p99Ms, earlier, later, same, recipients, countedMs } = found;
  const text = policyText(asked.policy);
  const tried = asked.category === undefined ? text : `${asked.category}: ${text}`;
  if (earlier + later + same === 0) {
    return html`<p class="empty">
      ${recipients === 0 ? 'Nobody waits' : 'Nothing waits'} for a slot now, so there is nothing to try ${tried} on.
    </p>`;
  }
  const row = (name: string, { now, then }: NowAndThen, write: (value: number) => string): (Html | string)[] => [
    name,
    write(now),
    write(then),
    change(then - now, write),
  ];
  return html`<p>
      ${badge(tried)} on
      ${asked.recipientId === undefined ? counted(recipients, 'recipient') : recipientLink(asked.recipientId)}:
      ${count(earlier)} would go earlier, ${count(later)} later, ${count(same)} at the same time.
    </p>
    ${table(
      ['', { name: 'Now', isNumber: true }, { name: 'Then', isNumber: true }, { name: 'Difference', isNumber: true }],
      [
        row('Wait for a slot', waiting, count),
        row('Longest wait', longestMs, waitText),
        row('Wait, p50', p50Ms, waitText),
        row('Wait, p99', p99Ms, waitText),
      ],
    )}
    ${notes(found).map((note) => html`<p class="hint">${note}</p>`)}
    ${
      countedMs === undefined
        ? ''
        : html`<p class="hint">
            What was sent is kept for ${formatDuration(countedMs)}, and a window that is tried is longer: it would count
            more, so waits may be longer than this.
          </p>`
    }`;
}

function notes(found: WhatIf | SampleWhatIf): string[] {
  if (!('lookedAt' in found)) return ['Limits of its own, where there are any, are replaced by these.'];
  const part =
    found.lookedAt < found.of
      ? `The sample is from ${count(found.lookedAt)} of ${count(found.of)} delayed jobs, spread over all due times. `
      : '';
  return [
    `${part}Recipients with limits of their own keep them. Recipients for whom much waits are in it most likely.`,
  ];
}

function waitText(ms: number): string {
  return ms === 0 ? 'none' : duration(ms);
}

function change(by: number, write: (value: number) => string): Html | string {
  if (by === 0) return 'same';
  return badge(`${by < 0 ? '−' : '+'}${write(Math.abs(by))}`, by < 0 ? 'ok' : 'warn');
}
