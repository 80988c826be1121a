import type { Context, Hono, MiddlewareHandler } from 'hono';
import { z } from 'zod';
import { notificationSchema } from '../src/notification/notification.ts';
import type { Logger } from '../src/observe/log.ts';
import { readFields } from '../src/operations/fields.ts';
import type { Canceled, CancelTarget, Producer, Retracted, RetractTarget } from '../src/producer/producer.ts';
import { json } from './bodies.ts';
import { fieldsIn, recipientOf, withoutPreview } from './operator-routes.ts';
import { problemResponse, UNKNOWN_ID } from './problems.ts';
import type { ApiEnv } from './serve.ts';
import type { Scope } from './tokens.ts';

// Calls notifications back: cancels those that wait, and retracts those that were sent too.

const { badge, cancellationKey } = notificationSchema.shape;
/** The fields of a request that retracts one notification. */
export const RETRACT_FIELDS = z.strictObject({
  badge: badge.describe("the number that the app's icon gets; by default it stays"),
});
/** The fields of a request that retracts a recipient's notifications under a key. */
export const RETRACT_KEY_FIELDS = RETRACT_FIELDS.extend({
  cancellationKey: cancellationKey.unwrap().describe('the key with which they were enqueued'),
});

export interface CancelParts {
  readonly producer: Pick<Producer, 'cancel' | 'retract'>;
  readonly log: Logger;
  /** Makes a check that the token has the scope. */
  readonly needs: (scope: Scope) => MiddlewareHandler<ApiEnv>;
}

/** Adds the routes. Any token with `send` may cancel what another token enqueued, so the log says which token did. */
export function addCancelRoutes(app: Hono<ApiEnv>, { producer, log, needs }: CancelParts): void {
  async function cancel(c: Context<ApiEnv>, target: CancelTarget): Promise<Canceled> {
    const who = byWhom(c, target);
    const { canceled, tooLate } = await producer.cancel(target);
    if (canceled + tooLate > 0) log.info({ ...who, canceled, tooLate }, 'canceled');
    return { canceled, tooLate };
  }

  async function retract(c: Context<ApiEnv>, target: RetractTarget): Promise<Retracted> {
    const who = byWhom(c, target);
    const { canceled, retracting, ended, unknown } = await producer.retract(target);
    const counts = { canceled, retracting, ended, unknown };
    if (Object.values(counts).some((count) => count > 0)) log.info({ ...who, ...counts }, 'retracted');
    return counts;
  }

  app.delete('/v1/notifications/:id', needs('send'), async (c) => {
    const id = c.req.param('id');
    withoutPreview(c, 'this cancel');
    const { canceled, tooLate } = await cancel(c, { id });
    if (canceled + tooLate === 0) return problemResponse(UNKNOWN_ID);
    return json(200, { id, result: canceled > 0 ? 'canceled' : 'tooLate' });
  });

  app.delete('/v1/recipients/:id/notifications', needs('send'), async (c) => {
    withoutPreview(c, 'this cancel');
    const key = c.req.query('cancellationKey') ?? '';
    return json(200, await cancel(c, { recipientId: recipientOf(c), cancellationKey: key }));
  });

  app.post('/v1/notifications/:id/retract', needs('send'), async (c) => {
    const id = c.req.param('id');
    withoutPreview(c, 'a retract');
    const body = await fieldsIn(c);
    if ('problem' in body) return problemResponse(body.problem);
    const counts = await retract(c, { id, ...readFields('the request', RETRACT_FIELDS, body.value) });
    const [result] = Object.entries(counts).find(([, count]) => count > 0) ?? ['unknown'];
    return json(202, { id, result });
  });

  app.post('/v1/recipients/:id/retract', needs('send'), async (c) => {
    const recipientId = recipientOf(c);
    withoutPreview(c, 'a retract');
    const body = await fieldsIn(c);
    if ('problem' in body) return problemResponse(body.problem);
    const fields = readFields('the request', RETRACT_KEY_FIELDS, body.value);
    return json(202, await retract(c, { recipientId, ...fields }));
  });
}

/** The token and the target of a request, for the log. Throws if the token may not act any more. */
function byWhom(c: Context<ApiEnv>, target: CancelTarget) {
  return { by: c.var.acting().name, ...('id' in target ? { id: target.id } : { recipientId: target.recipientId }) };
}
