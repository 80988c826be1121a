import type { Hono, MiddlewareHandler } from 'hono';
import { Counter, Histogram, Registry } from 'prom-client';
import { z } from 'zod';
import type { ApiConfig } from '../src/config/config.ts';
import { askIdOverHttp, createMoveUps, moveLineUp } from '../src/delivery/lines.ts';
import { MAX_WINDOW_MS } from '../src/domain/limits.ts';
import { DURATION_FORMAT, formatDuration, LATENESS_BOUNDS_MS, parseDuration, sleepUntil } from '../src/domain/time.ts';
import { rateLimitFields } from '../src/http/limit.ts';
import type { Admission, Admitted, Limiter, Refused, SlotId } from '../src/limiter/limiter.ts';
import { paceOf } from '../src/limiter/pace.ts';
import { notificationSchema } from '../src/notification/notification.ts';
import { readFields, unfit, written } from '../src/operations/fields.ts';
import { redelay, type Due } from '../src/queue/redelay.ts';
import type { Backend } from './backend.ts';
import { json } from './bodies.ts';
import { fieldsIn, isPreviewed, recipientOf, withoutPreview } from './operator-routes.ts';
import { problemResponse, type Problem } from './problems.ts';
import type { ApiEnv } from './serve.ts';
import type { Scope } from './tokens.ts';

// Slots of recipients for what others send (e-mail, SMS, in-app), from the limiter of the alerts.

const names = {
  id: notificationSchema.shape.id.describe('the same id, of the same category, is the same ask'),
  category: notificationSchema.shape.category.describe('its limits hold beside those of the recipient'),
};
/** The fields of a request for a slot. */
export const ADMIT_FIELDS = z.strictObject({
  ...names,
  wait: z.boolean().optional().describe('true: if there is no slot now, reserves the next one'),
  maxWait: written(
    z.string(),
    { label: 'Longest wait', value: 'duration', description: 'reserves no slot that is further ahead' },
    (text) => {
      const ms = parseDuration(text);
      if (ms !== undefined && ms > 0 && ms <= MAX_WINDOW_MS) return { value: ms };
      return unfit(`${DURATION_FORMAT}, at most ${formatDuration(MAX_WINDOW_MS)}`, text);
    },
  ).optional(),
  unsent: z
    .boolean()
    .optional()
    .describe('true: if it was admitted before, certainly nothing was sent; its slot is asked for anew'),
});
/** The fields of a request that gives a slot back. */
export const REFUND_FIELDS = z.strictObject(names);

/** The category is part of the id, so an e-mail and an SMS of one message are two asks. */
function slotOf(recipientId: string, id: string, category: string | undefined): SlotId {
  const name = category === undefined ? id : `${category}:${id}`;
  return { recipientId, id: askIdOverHttp(name), ...(category !== undefined && { category }) };
}

/**
 * A reservation may move to an earlier slot when others give back their slots or an operator changes limits, and nobody tells
 * the caller. So the caller asks again this often. An unused reservation is forgotten a minute after its slot.
 */
const ASK_AGAIN_MS = 30_000;

/** What was given back: a slot that was used or due (`refunded`), a reservation (`canceled`), or nothing (`unknown`). */
type Refund = 'refunded' | 'canceled' | 'unknown';

export interface AdmitParts extends Pick<Backend, 'limiters' | 'shards'> {
  readonly bounds: ApiConfig['admits'];
  /** Makes a check that the token has the scope. */
  readonly needs: (scope: Scope) => MiddlewareHandler<ApiEnv>;
}

/** Adds the routes that take slots and give them back, and the page with the metrics of these slots. */
export function addAdmitRoutes(app: Hono<ApiEnv>, { limiters, shards, bounds, needs }: AdmitParts): void {
  const metrics = createAdmitMetrics();
  const moveUps = createMoveUps();

  app.post('/v1/recipients/:id/admit', needs('limit'), async (c) => {
    const [recipientId, isPreview] = [recipientOf(c), isPreviewed(c)];
    const body = await fieldsIn(c);
    if ('problem' in body) return problemResponse(body.problem);
    const {
      id,
      category,
      wait = false,
      maxWait,
      unsent = false,
    } = readFields('the request', ADMIT_FIELDS, body.value, {
      faults: ({ wait: waits, maxWait: given }) =>
        given === undefined || (waits !== undefined && waits !== false)
          ? []
          : [{ path: 'wait', expected: 'true beside maxWait', found: String(waits ?? 'none') }],
    });
    const {
      limiters: all,
      policy,
      categories,
    } = await limiters().catch((error: unknown) => {
      if (!isPreview) metrics.failed();
      throw error;
    });
    const slot = slotOf(recipientId, id, category);
    const ask = {
      ...slot,
      // Counts quiet time and blocks; `maxWaitMs` does not. A caller that waits ten minutes does not want the next morning.
      expiresInMs: wait ? Math.min(maxWait ?? bounds.maxWaitMs, bounds.maxWaitMs) : 0,
      maxPending: bounds.maxPending,
      everyRule: true,
      ...(unsent && { renew: true }),
    };
    if (isPreview) return answerOf(await all.alert.peek(ask), { id, category });
    c.var.acting(); // throws if the token was revoked meanwhile
    const counted = category !== undefined && Object.hasOwn(categories, category) ? category : undefined;
    const answer = await metrics.asked(all.alert.admit(ask), counted);
    // The caller sends at once, so the answer comes at the slot: up to the tolerance from now, if the line is late.
    if (answer.kind === 'admitted' && answer.sendAt > performance.now())
      await sleepUntil(answer.sendAt, c.req.raw.signal);
    if (answer.kind === 'refused') {
      // The id may have a slot that is unused, or too far ahead by now. It is given back: a refused caller does not come.
      const wasSent = unsent && (await all.alert.refund(slot));
      const wasReserved = await all.alert.cancel(slot);
      if (wasSent || wasReserved) await moveUp(recipientId, all.alert, paceOf(policy).toleranceMs);
    }
    return answerOf(answer, { id, category });
  });

  app.post('/v1/recipients/:id/refund', needs('limit'), async (c) => {
    const recipientId = recipientOf(c);
    withoutPreview(c, 'a refund');
    const body = await fieldsIn(c);
    if ('problem' in body) return problemResponse(body.problem);
    const { id, category } = readFields('the request', REFUND_FIELDS, body.value);
    const { limiters: all, policy } = await limiters();
    c.var.acting(); // throws if the token was revoked meanwhile
    const result = await refund(slotOf(recipientId, id, category), all.alert);
    metrics.refunded(result);
    if (result !== 'unknown') await moveUp(recipientId, all.alert, paceOf(policy).toleranceMs);
    return json(200, { id, ...(category !== undefined && { category }), result });
  });

  app.get('/metrics', needs('read'), async () => {
    const { registry } = metrics;
    return new Response(await registry.metrics(), { headers: { 'content-type': registry.contentType } });
  });

  /** A slot is free: those that wait behind it get earlier slots, and the jobs of alerts are woken for them. */
  async function moveUp(recipientId: string, limiter: Limiter, toleranceMs: number): Promise<void> {
    await moveLineUp({ name: recipientId, recipientId, limiter }, { moveUps, redelay: redelayOf, toleranceMs });
  }

  async function redelayOf(recipientId: string, dues: readonly Due[]): Promise<void> {
    if (dues.length === 0) return;
    const homes = await shards.homes(recipientId);
    await redelay(
      homes.map(({ queue }) => queue),
      dues,
    );
  }
}

/** Gives back the slot or the reservation of the id. A slot that no longer counts is `unknown`, even if Redis still has it. */
async function refund(slot: SlotId, limiter: Limiter): Promise<Refund> {
  const known = await limiter.peek(slot);
  const [wasSent, wasReserved] = await Promise.all([limiter.refund(slot), limiter.cancel(slot)]);
  if (wasReserved) return 'canceled';
  return wasSent && known.kind === 'admitted' && known.repeated ? 'refunded' : 'unknown';
}

interface Asked {
  readonly id: string;
  readonly category: string | undefined;
}

/** 200: send now, or the id was admitted before; 202: come back at the slot; 429: the id has no slot. */
function answerOf(answer: Admission, { id, category }: Asked): Response {
  const isRefused = answer.kind !== 'admitted';
  const headers = rateLimitFields(answer, isRefused);
  const head = { id, ...(category !== undefined && { category }) };
  if (!isRefused) return json(200, { ...head, result: 'admitted', ...admittedFields(answer) }, headers);
  const { kind, waitMs, rule, before, ruleUntil } = answer;
  const wait = { waitMs, rule, before, ...(ruleUntil !== undefined && { ruleUntil }) };
  if (kind === 'refused') {
    const more = { ...head, result: kind, because: answer.because, ...wait };
    return problemResponse({ ...limited(answer), headers: { ...headers, ...retryAfter(waitMs) }, more });
  }
  const againMs = Math.min(waitMs, ASK_AGAIN_MS);
  return json(202, { ...head, result: kind, at: answer.at, ...wait, againMs }, { ...headers, ...retryAfter(againMs) });
}

/** Without any rule there is no bound, and JSON has no Infinity. */
function admittedFields({ at, repeated, rule, remaining, resetMs }: Admitted) {
  return { at, repeated, rule, ...(remaining !== Infinity && { remaining, resetMs }) };
}

function limited({ rule, waitMs, because }: Refused): Problem {
  const why =
    because === 'max-pending' ? 'too many wait for this recipient already' : `no slot now, because of ${rule}`;
  const detail = `${why}; the next one is in ${Math.ceil(waitMs / 1_000)} s`;
  return { status: 429, code: 'limited', detail };
}

/** Whole seconds, rounded up. */
function retryAfter(ms: number): Readonly<Record<string, string>> {
  return { 'Retry-After': String(Math.max(1, Math.ceil(ms / 1_000))) };
}

/** The label `result` of admits; `failed`: the limiter gave no answer. */
const RESULTS = ['admitted', 'repeated', 'reserved', 'refused', 'failed'] as const;
const REFUNDS: readonly Refund[] = ['refunded', 'canceled', 'unknown'];

/** What this process counts about slots over HTTP. Labels have few values: a category only if it has limits. */
export function createAdmitMetrics() {
  const registry = new Registry();
  const registers = [registry];
  const admits = new Counter({
    ...{ name: 'pushpacer_admits_total', labelNames: ['result', 'category'], registers },
    help: 'Asks for slots over HTTP, by what was answered; category: only one with limits of its own.',
  });
  const refunds = new Counter({
    ...{ name: 'pushpacer_refunds_total', labelNames: ['result'], registers },
    help: 'Slots that were given back over HTTP.',
  });
  const seconds = new Histogram({
    ...{ name: 'pushpacer_admit_seconds', registers },
    help: 'How long the limiter took to answer an ask over HTTP, or to give no answer.',
    buckets: LATENESS_BOUNDS_MS.map((ms) => ms / 1_000),
  });
  for (const result of RESULTS) admits.inc({ result }, 0); // Prometheus sees no rise in a series that begins at 1
  for (const result of REFUNDS) refunds.inc({ result }, 0);

  return {
    registry,
    /** @param category a label of the metric: only if the category has limits of its own, so that there are few labels */
    async asked(asking: Promise<Admission>, category: string | undefined): Promise<Admission> {
      const began = performance.now();
      let result: (typeof RESULTS)[number] = 'failed';
      try {
        const answer = await asking;
        result = answer.kind === 'admitted' && answer.repeated ? 'repeated' : answer.kind;
        return answer;
      } finally {
        admits.inc({ result, ...(category !== undefined && { category }) });
        seconds.observe((performance.now() - began) / 1_000);
      }
    },
    /** Redis did not answer before the limiter could be asked. */
    failed: () => {
      admits.inc({ result: 'failed' });
    },
    refunded: (result: Refund) => {
      refunds.inc({ result });
    },
  };
}
