import { Hono, type Context } from 'hono';
import { HTTPException } from 'hono/http-exception';
import { InputError } from '../src/domain/faults.ts';
import { NewerFormatError } from '../src/domain/format.ts';
import type { Tracing } from '../src/observe/tracing.ts';
import type { Told } from '../src/operations/story.ts';
import { RedisAwayError, type RedisTrouble } from '../src/redis/connection.ts';
import { LimiterUnavailableError, notNowWord } from '../src/redis/deadline.ts';
import { ClientLeft, createAccess, dear, TOO_MUCH_AT_ONCE, type AccessParts } from './access.ts';
import { addAdmitRoutes, type AdmitParts } from './admits.ts';
import type { Backlog } from './backlog.ts';
import {
  batchAnswer,
  bytesOf,
  json,
  MOST_BYTES,
  NDJSON,
  parseBody,
  readBody,
  streamOf,
  typeOf,
  unsupported,
} from './bodies.ts';
import { addCancelRoutes, type CancelParts } from './cancels.ts';
import type { Enqueuer, Result } from './enqueue.ts';
import { openApiText } from './openapi.ts';
import { addOperatorRoutes, recipientOf, withoutPreview, type OperatorParts } from './operator-routes.ts';
import { openOutcomes, parseCursor, type OutcomesParts } from './outcomes.ts';
import { invalid, problemResponse, redisAway, UNKNOWN_ID, type Problem } from './problems.ts';
import type { Recipients } from './recipients.ts';
import type { ApiEnv } from './serve.ts';
import type { Token } from './tokens.ts';

export interface AppParts extends Omit<OperatorParts, 'needs'>, AccessParts {
  readonly producer: CancelParts['producer'];
  /** What became of a notification, and why. */
  readonly tell: (id: string) => Promise<Told>;
  readonly enqueuer: Enqueuer;
  readonly backlog: Backlog;
  readonly recipients: Recipients;
  readonly outcomes: OutcomesParts;
  /** The parts for slots of messages that other programs send, such as e-mail. */
  readonly admits: Omit<AdmitParts, 'needs'>;
  /** An error of Redis's client as RedisAwayError; any other error stays as it is. */
  readonly explain: (error: unknown) => unknown;
  /** Whether Redis answers. */
  readonly isReady: () => Promise<boolean>;
  /** Absent if no traces are wanted. */
  readonly tracing?: Pick<Tracing, 'continuing'>;
  /** Aborts when the server stops, which ends streams of outcomes. */
  readonly signal: AbortSignal;
}

/** How many clients may read outcomes at the same time. */
const MOST_READERS = 100;
const KEY = /^[\x21-\x7e]{1,255}$/;
const EVENT_STREAM = { 'content-type': 'text/event-stream', 'x-accel-buffering': 'no' };

/** The HTTP API: every route, and what is checked before it. */
export function createApp(parts: AppParts): Hono<ApiEnv> {
  const { producer, tell, enqueuer, backlog, recipients, outcomes, log, explain, signal } = parts;
  const app = new Hono<ApiEnv>();
  const { needs } = createAccess(parts);
  let readers = 0;

  app.use(async (c, next) => {
    await next();
    c.header('Cache-Control', 'no-store');
    c.header('X-Content-Type-Options', 'nosniff');
  });

  const { tracing } = parts;
  if (tracing !== undefined) {
    app.use('/v1/*', (c, next) => {
      const headers = { traceparent: c.req.header('traceparent'), tracestate: c.req.header('tracestate') };
      return tracing.continuing(headers, next);
    });
  }

  app.get('/healthz', (c) => c.text('ok\n'));
  app.get('/readyz', async (c) => {
    const redis = await parts.isReady();
    return c.json({ ok: redis, redis }, redis ? 200 : 503);
  });
  app.get('/openapi.json', (c) => c.body(openApiText(), 200, { 'content-type': 'application/json' }));

  app.post('/v1/notifications', needs('send'), async (c) => {
    withoutPreview(c, 'an enqueue');
    const type = typeOf(c);
    const key = c.req.header('idempotency-key');
    if (type === NDJSON) return key === undefined ? enqueueStream(c) : problemResponse(KEY_IN_STREAM);
    if (type !== 'application/json') return problemResponse(unsupported(type));
    if (key !== undefined && !KEY.test(key)) return problemResponse(BAD_KEY);
    return enqueueJson(c, key);
  });

  async function enqueueJson(c: Context<ApiEnv>, key: string | undefined): Promise<Response> {
    const { acting } = c.var;
    const full = await backlog.problemFor(acting());
    if (full !== undefined) return problemResponse(full);
    const body = await readBody(c, MOST_BYTES);
    if ('problem' in body) return problemResponse(body.problem);
    const parsed = parseBody(body.text);
    if ('problem' in parsed) return problemResponse(parsed.problem);
    const { inputs, isArray } = parsed;
    if (key === undefined) return answer(await enqueuer.add(inputs, acting()), inputs, isArray);
    const claim = await enqueuer.claim(key, acting(), body.text);
    if (claim.kind === 'conflict') return problemResponse(OTHER_BODY);
    const withIds = claim.withIds(inputs);
    if (claim.kind === 'done') return answer(await claim.repeated(withIds), withIds, isArray);
    const results = await enqueuer.add(withIds, acting());
    await claim.done(results);
    return answer(results, withIds, isArray);
  }

  async function answer(results: readonly Result[], inputs: readonly unknown[], isArray: boolean): Promise<Response> {
    if (isArray) return batchAnswer(results);
    const [result] = results;
    switch (result?.result) {
      case 'duplicate': // it may have ended
        return json(202, result);
      case 'added': {
        const estimatedAt = await recipients.estimate({ ...(inputs[0] as object), id: result.id });
        return json(202, { ...result, ...(estimatedAt !== undefined && { estimatedAt }) });
      }
      case 'invalid':
        return problemResponse(invalid(result.faults));
      case 'conflict':
        return problemResponse({ status: 409, code: 'conflict', detail: result.detail });
      default:
        throw new Error('expected one result for one notification');
    }
  }

  /** Answers each step of lines when it is added. `Prefer: return=minimal` leaves out lines that were added or are duplicates. */
  function enqueueStream(c: Context<ApiEnv>): Response {
    const read = bytesOf(c);
    if ('problem' in read) return problemResponse(read.problem);
    const { bytes } = read;
    const { name } = c.var.acting();
    const isMinimal = /\breturn=minimal\b/.test(c.req.header('prefer') ?? '');
    const counts = { added: 0, duplicate: 0, invalid: 0, conflict: 0, refused: 0 };
    let isRevoked = false;
    const tokenNow = (): Token | undefined => {
      const token = c.var.mayStill();
      isRevoked = token === undefined;
      return token;
    };
    async function* lines(): AsyncGenerator<string> {
      try {
        for await (const results of enqueuer.addLines(bytes, tokenNow)) {
          for (const { result } of results) counts[result]++;
          const shown = isMinimal
            ? results.filter(({ result }) => result !== 'added' && result !== 'duplicate')
            : results;
          if (shown.length > 0) yield shown.map((each) => `${JSON.stringify(each)}\n`).join('');
        }
        if (isRevoked) log.warn({ by: name }, 'a stream of notifications ended: its token was revoked');
        yield `${JSON.stringify({ end: !isRevoked, ...counts, ...(isRevoked && { problem: NOTHING_MORE_ADDED }) })}\n`;
      } catch (error) {
        log.warn({ err: error }, 'a stream of notifications ended before its end');
        yield `${JSON.stringify({ end: false, ...counts, problem: problemOf(explain(error)).detail })}\n`;
      }
    }
    return new Response(streamOf(lines()), { status: 200, headers: { 'content-type': NDJSON } });
  }

  app.get('/v1/notifications/:id', needs('read'), async (c) => {
    const id = c.req.param('id');
    const { status, story } = await tell(id);
    if (status.state === 'unknown') return problemResponse({ ...UNKNOWN_ID, detail: story.why.join(' ') });
    return json(200, { id, ...status, story });
  });

  addCancelRoutes(app, { producer, log, needs });

  app.get('/v1/recipients/:id', needs('read'), (c) => {
    const id = recipientOf(c);
    return dear(c, async (leaving) => json(200, await recipients.look(id, leaving)));
  });

  addOperatorRoutes(app, { ...parts, needs });
  addAdmitRoutes(app, { ...parts.admits, needs });

  app.get('/v1/outcomes', needs('read'), async (c) => {
    const text = c.req.header('last-event-id') ?? c.req.query('after');
    const cursor = text === undefined ? undefined : parseCursor(text, await outcomes.layout());
    if (text !== undefined && cursor === undefined) return problemResponse(BAD_CURSOR);
    if (c.req.raw.method === 'HEAD') return new Response(null, { headers: EVENT_STREAM });
    const gone = new AbortController();
    const mayRead = () => c.var.mayStill() !== undefined;
    const reading = { signal: AbortSignal.any([signal, gone.signal]), mayRead };
    const events = await openOutcomes(outcomes, cursor, reading);
    if (readers >= MOST_READERS) return problemResponse(TOO_MANY_READERS);
    const share = c.var.shares.readers;
    if (!share.take(1)) return problemResponse(TOO_MUCH_AT_ONCE);
    readers++;
    const body = streamOf(events, () => {
      readers--;
      share.give(1);
      gone.abort();
    });
    return new Response(body, { headers: EVENT_STREAM });
  });

  app.notFound((c) => {
    // Without the checks, which are registered for every method.
    const methods = app.routes.filter(({ method, path }) => method !== 'ALL' && patternOf(path).test(c.req.path));
    if (methods.length === 0)
      return problemResponse({ status: 404, code: 'not-found', detail: 'no such path; see /openapi.json' });
    const allow = [...new Set(methods.map(({ method }) => method))].join(', ');
    return problemResponse({
      status: 405,
      code: 'method-not-allowed',
      detail: `expected ${allow}`,
      headers: { allow },
    });
  });

  app.onError((error) => {
    if (error instanceof HTTPException) return error.getResponse();
    if (error instanceof ClientLeft) return new Response(null, { status: CLIENT_LEFT }); // nobody reads it
    // Fields may be refused before Redis has answered for the first time.
    const problem = problemOf(error instanceof InputError ? error : explain(error));
    if (problem.status === 500) log.error({ err: error }, 'unexpected error in a request');
    return problemResponse(problem);
  });

  return app;
}

/** The regular expression for a route such as `/v1/recipients/:id`. */
function patternOf(path: string): RegExp {
  return new RegExp(`^${path.replaceAll('.', '\\.').replaceAll(/:\w+/g, '[^/]+')}$`);
}

/** The status of answers that nobody gets, as nginx has it. */
const CLIENT_LEFT = 499;

const OTHER_BODY: Problem = {
  ...{ status: 409, code: 'conflict' },
  detail: 'this Idempotency-Key came within the last 24 hours with another body',
};
const BAD_KEY: Problem = {
  ...{ status: 400, code: 'invalid' },
  detail: 'the header Idempotency-Key: expected 1 to 255 printable ASCII characters without spaces',
};
const KEY_IN_STREAM: Problem = {
  ...{ status: 400, code: 'invalid' },
  detail: 'a stream has no Idempotency-Key: give each notification an id, which makes it safe to send it again',
};
const NOTHING_MORE_ADDED = 'the token was revoked, or lost the scope send: nothing more was added after these';
const BAD_CURSOR: Problem = {
  ...{ status: 400, code: 'invalid' },
  detail:
    'Last-Event-ID (or ?after=): expected 0, or the id of an event of this API with as many shards as there are now',
};
const TOO_MANY_READERS: Problem = {
  ...{ status: 429, code: 'queue-full', headers: { 'retry-after': '60' } },
  detail: `${MOST_READERS} clients read outcomes here already`,
};

function problemOf(error: unknown): Problem {
  if (error instanceof RedisAwayError || error instanceof LimiterUnavailableError) {
    return redisAway(`${awayText(error)}; what was not answered yet may be sent again with the same ids`);
  }
  if (error instanceof InputError) return invalid(error.faults, 'the request');
  if (error instanceof NewerFormatError) return { status: 409, code: 'conflict', detail: error.message };
  return { status: 500, code: 'internal', detail: 'an unexpected error; the log of the server has it' };
}

/** What is wrong with Redis, without its address. */
function awayText(error: RedisAwayError | LimiterUnavailableError): string {
  if (error instanceof LimiterUnavailableError) return 'the limiter cannot use its Redis now';
  if (error.trouble !== 'not-now') return REDIS_TROUBLES[error.trouble];
  const word = notNowWord(error.message);
  return `${REDIS_TROUBLES[error.trouble]}${word === undefined ? '' : ` (${word})`}`;
}

const REDIS_TROUBLES: Readonly<Record<RedisTrouble, string>> = {
  away: 'Redis does not answer',
  'not-now': 'Redis answers that it cannot do this now',
  credentials: 'Redis refuses the credentials of this server',
  permission: 'Redis forbids this server a command',
  'not-redis': 'what answers is no Redis',
  tls: 'there is no TLS with Redis',
};
