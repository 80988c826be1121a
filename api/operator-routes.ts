import type { Context, Hono, MiddlewareHandler } from 'hono';
import { rateText } from '../src/dead-letters/pace.ts';
import type { Run, Verb } from '../src/dead-letters/runs.ts';
import { describeFound, InputError } from '../src/domain/faults.ts';
import { notificationSchema } from '../src/notification/notification.ts';
import type { Logger } from '../src/observe/log.ts';
import { OPERATIONS } from '../src/operations/catalogue.ts';
import type { StatusResult } from '../src/operations/status.ts';
import type { TakeRuns } from '../src/operations/take-runs.ts';
import {
  askToTake,
  choiceFields,
  newerText,
  outlookSentences,
  TAKINGS,
  toWhomText,
  type Wish,
} from '../src/operations/taking.ts';
import { breakdown, deadLetters } from '../src/terminal/text.ts';
import { dear } from './access.ts';
import { json, MOST_BYTES, parseJson, readBody, typeOf, unsupported } from './bodies.ts';
import type { Operations } from './operations.ts';
import { problemResponse, type Problem } from './problems.ts';
import type { ApiEnv } from './serve.ts';
import type { Scope } from './tokens.ts';

export interface OperatorParts {
  readonly operations: Operations;
  readonly takes: TakeRuns;
  readonly status: (signal: AbortSignal) => Promise<StatusResult>;
  readonly log: Logger;
  /** Makes a check that the token has the scope. */
  readonly needs: (scope: Scope) => MiddlewareHandler<ApiEnv>;
}

/** How long a preview of dead letters looks before it answers with what it has seen so far, in milliseconds. */
const LOOK_MS = 10_000;

/** Adds the routes for what operators look at and do, made from the catalogue of operations. */
export function addOperatorRoutes(app: Hono<ApiEnv>, parts: OperatorParts): void {
  const { operations, takes, status, log, needs } = parts;

  app.get('/v1/status', needs('read'), (c) => dear(c, async (leaving) => json(200, await status(leaving))));

  for (const operation of OPERATIONS) {
    app.post(`/v1/recipients/:id/${operation.name}`, needs(operation.scope), async (c) => {
      const [recipientId, isPreview] = [recipientOf(c), isPreviewed(c)];
      const body = await fieldsIn(c);
      if ('problem' in body) return problemResponse(body.problem);
      if (isPreview) return json(200, await operations.preview(operation, recipientId, body.value));
      let by = '';
      const done = await operations.run(operation, recipientId, body.value, () => (by = c.var.acting().name));
      log.info({ by, recipientId, operation: operation.name, moved: done.moved }, 'an operator acted');
      return json(200, done);
    });
  }

  for (const { name: verb, scope } of Object.values(TAKINGS)) {
    app.post(`/v1/dead-letters/${verb}`, needs(scope), async (c) => {
      const isPreview = isPreviewed(c);
      const body = await fieldsIn(c);
      if ('problem' in body) return problemResponse(body.problem);
      if (!isPreview) return begin(verb, body.value, () => c.var.acting().name);
      return dear(c, async (leaving) => json(200, await previewOf(verb, body.value, leaving)));
    });
  }

  /** What the fields ask for. Rejects with InputError if the fields have faults, also while Redis does not answer. */
  async function wanted(verb: Verb, fields: unknown) {
    askToTake(verb, fields, Date.now());
    const opened = await takes.open();
    return { opened, wish: askToTake(verb, fields, opened.now) };
  }

  async function previewOf(verb: Verb, fields: unknown, leaving: AbortSignal): Promise<object> {
    const { opened, wish } = await wanted(verb, fields);
    const { policy, ...seen } = await takes.preview(wish, opened, LOOK_MS, leaving);
    const { count, byReason, newer, isWhole } = seen;
    const which = `${verb} ${isWhole ? '' : 'more than '}${deadLetters(count)}${breakdown(byReason)}`;
    const newerOnes = newerText(newer, TAKINGS[verb].past);
    const rest = [
      ...(isWhole ? [] : ['There are more than could be counted: all of them are meant.']),
      ...(newerOnes === undefined ? [] : [`${newerOnes}.`]),
    ];
    const said = { chosen: chosenBy(wish), now: seen.now, count, byReason, newer, isWhole };
    if (verb === 'discard') return { ...said, would: [`${which}.`, ...rest].join(' ') };
    const sentences = outlookSentences(seen, { perSecond: wish.perSecond, policy });
    return { ...seen, ...said, would: [`${which}${toWhomText(seen)}.`, ...sentences, ...rest].join(' ') };
  }

  async function begin(verb: Verb, fields: unknown, who: () => string): Promise<Response> {
    const { wish } = await wanted(verb, fields);
    const by = who();
    const started = await takes.start(wish, by);
    if (started.kind === 'full') return problemResponse(tooMany(started.most));
    const { run } = started;
    log.info({ by, run: run.id, verb }, 'a run began');
    const answer = json(202, viewOf(run));
    answer.headers.set('location', `/v1/dead-letters/runs/${run.id}`);
    return answer;
  }

  app.get('/v1/dead-letters/runs', needs('read'), () => json(200, { runs: takes.list().map(viewOf) }));
  app.get('/v1/dead-letters/runs/:id', needs('read'), (c) => found(c.req.param('id')));
  app.post('/v1/dead-letters/runs/:id/stop', needs('operate'), (c) => {
    const id = c.req.param('id');
    withoutPreview(c, 'a stop');
    takes.stop(id, c.var.acting().name);
    return found(id);
  });

  function found(id: string): Response {
    const run = takes.find(id);
    return run === undefined ? problemResponse(UNKNOWN_RUN) : json(200, viewOf(run));
  }
}

/** The fields with fixed times, so that they mean the same later. */
function chosenBy({ which, perSecond, buriedUntilMs }: Omit<Wish, 'verb'>): object {
  return { ...choiceFields(which), rate: rateText(perSecond), before: buriedUntilMs };
}

/** A run as the API shows it, with its choice as fields. The run's error may name Redis's address, so only the log has it. */
function viewOf({ which, perSecond, buriedUntilMs, error, ...run }: Run): object {
  const chosen = chosenBy({ which, perSecond, buriedUntilMs });
  return { ...run, chosen, ...(error !== undefined && { error: 'it could not go on; the log of the API says why' }) };
}

/** The fields in the body; if there is no body, there are no fields. */
export async function fieldsIn(
  c: Context<ApiEnv>,
): Promise<{ readonly value: unknown } | { readonly problem: Problem }> {
  const body = await readBody(c, { one: MOST_BYTES.fields, array: MOST_BYTES.fields });
  if ('problem' in body) return body;
  const { text } = body;
  const type = typeOf(c);
  if (text !== '' && type !== 'application/json') return { problem: unsupported(type, ['application/json']) };
  return text === '' ? { value: {} } : parseJson(text);
}

/** The id in the path. Throws InputError if no recipient can have it. */
export function recipientOf(c: Context): string {
  if (!isDecodable(new URL(c.req.url).pathname)) {
    throw new InputError('the path', [{ path: 'id', expected: 'UTF-8, percent-encoded', found: 'something else' }]);
  }
  const checked = notificationSchema.shape.recipientId.safeParse(c.req.param('id'));
  if (checked.success) return checked.data;
  const expected = checked.error.issues[0]?.message ?? 'a recipient';
  throw new InputError('the path', [{ path: 'id', expected, found: 'something else' }]);
}

/** Whether the text is percent-encoded UTF-8. Hono leaves other codes as they are. */
function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

/** Whether the request wants to know what it would do, and change nothing. */
export function isPreviewed(c: Context<ApiEnv>): boolean {
  const text = c.req.query('preview');
  if (text === undefined || text === 'true' || text === 'false') return text === 'true';
  throw new InputError('the address', [{ path: 'preview', expected: 'true or false', found: describeFound(text) }]);
}

/** Refuses a request that wants a preview. `what`: `a refund` */
export function withoutPreview(c: Context<ApiEnv>, what: string): void {
  if (!isPreviewed(c)) return;
  const expected = `none: ${what} has no preview`;
  throw new InputError('the address', [{ path: 'preview', expected, found: 'true' }]);
}

const UNKNOWN_RUN: Problem = {
  ...{ status: 404, code: 'not-found' },
  detail: 'no run has this id: this process did not begin it, or it ended long ago; the audit has what it did',
};

function tooMany(most: number): Problem {
  return {
    ...{ status: 409, code: 'conflict' },
    detail: `${most} runs go on in this API already: wait until one has ended, or stop one`,
  };
}
