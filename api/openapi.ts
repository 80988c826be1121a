import { readFileSync } from 'node:fs';
import { DEAD_LETTER_REASONS, OUTCOMES } from '../src/notification/outcome.ts';
import { packageVersion } from '../src/observe/metrics.ts';
import { OPERATIONS } from '../src/operations/catalogue.ts';
import { fieldsSchema } from './operations.ts';

type Schema = Readonly<Record<string, unknown>>;

const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });
const body = (type: string, schema: Schema, example?: unknown) => ({
  [type]: { schema, ...(example !== undefined && { example }) },
});
const problem = (description: string) => ({ description, content: body('application/problem+json', ref('Problem')) });
const answer = (description: string, schema: Schema) => ({ description, content: body('application/json', schema) });
const object = (properties: Readonly<Record<string, Schema>>, required = Object.keys(properties)): Schema => ({
  ...{ type: 'object', required, properties },
});
const integer: Schema = { type: 'integer', minimum: 0 };
const instant: Schema = { type: 'integer', description: 'epoch milliseconds' };
const text: Schema = { type: 'string' };
const ms: Schema = { type: 'number', minimum: 0, description: 'milliseconds' };
const NDJSON = 'application/x-ndjson';

const EXAMPLE = {
  id: 'msg-8841',
  recipientId: 'teacher-42',
  devices: [{ platform: 'fcm', token: 'REGISTRATION-TOKEN' }],
  alert: { title: 'Room 12', body: 'Field trip forms are due' },
};

const idInPath = { name: 'id', in: 'path', required: true, schema: text };
/** What every request that needs a token may be answered. */
const REFUSALS = {
  401: problem('no valid token'),
  403: problem('the token has not the scope that this needs'),
  429: problem('too many wait, or too many requests without a valid token came; see Retry-After'),
  503: problem('Redis does not answer; see Retry-After'),
};

function paths(): Schema {
  return {
    '/v1/notifications': {
      post: {
        operationId: 'enqueue',
        summary: 'Enqueues one notification, an array of up to 1,000, or a stream. Scope: send',
        parameters: [
          {
            ...{ name: 'Idempotency-Key', in: 'header', schema: { type: 'string', minLength: 1, maxLength: 255 } },
            description:
              'remembered for 24 hours: the same request again adds nothing; with another body it is refused',
          },
          {
            ...{ name: 'Prefer', in: 'header', schema: text },
            description: 'return=minimal: of a stream only the faults are answered, and the counts at its end',
          },
        ],
        requestBody: {
          required: true,
          content: {
            'application/json': {
              schema: {
                anyOf: [
                  ref('Notification'),
                  { type: 'array', minItems: 1, maxItems: 1_000, items: ref('Notification') },
                ],
              },
              examples: { one: { value: EXAMPLE }, several: { value: [EXAMPLE, { ...EXAMPLE, id: 'msg-8842' }] } },
            },
            ...body(NDJSON, { type: 'string', description: 'one notification a line' }, `${JSON.stringify(EXAMPLE)}\n`),
          },
        },
        responses: {
          ...{
            200: { description: 'of a stream: one result a line', content: body(NDJSON, ref('LineResult')) },
            202: answer('it is in the queue now; of an array: at least one is', {
              anyOf: [ref('Enqueued'), ref('BatchResult')],
            }),
            400: problem('the body is not JSON, or a header is not usable'),
            409: problem('the id, or the Idempotency-Key, came before with other content'),
            413: problem('the body is too large'),
            415: problem('neither application/json nor application/x-ndjson'),
            422: {
              description: 'it does not fit, with every fault; of an array: none fits',
              content: {
                ...body('application/problem+json', ref('Problem')),
                ...body('application/json', ref('BatchResult')),
              },
            },
          },
          ...REFUSALS,
        },
      },
    },
    '/v1/notifications/{id}': {
      get: {
        ...{ operationId: 'status', parameters: [idInPath] },
        summary: 'What became of a notification, and its story. Scope: read',
        responses: {
          200: answer('its state, and its story', ref('Status')),
          404: problem('unknown, or it ended more than an hour ago and its story is not kept'),
          422: problem('no notification can have this id'),
          ...REFUSALS,
        },
      },
      delete: {
        ...{ operationId: 'cancel', summary: 'Cancels a notification that waits. Scope: send', parameters: [idInPath] },
        responses: {
          200: answer('what came of it', object({ id: text, result: { enum: ['canceled', 'tooLate'] } })),
          404: problem('unknown, or it ended more than an hour ago'),
          422: problem('no notification can have this id'),
          ...REFUSALS,
        },
      },
    },
    '/v1/recipients/{id}/notifications': {
      delete: {
        operationId: 'cancelByKey',
        summary: 'Cancels what waits for a recipient under a cancellation key. Scope: send',
        parameters: [idInPath, { name: 'cancellationKey', in: 'query', required: true, schema: text }],
        responses: {
          200: answer('how many', object({ canceled: integer, tooLate: integer })),
          422: problem('the recipient or the key is not usable'),
          ...REFUSALS,
        },
      },
    },
    '/v1/recipients/{id}': {
      get: {
        operationId: 'recipient',
        summary: "A recipient's limits, sent slots, and what waits. Scope: read",
        parameters: [idInPath],
        responses: {
          200: answer('what is known of the recipient', ref('Recipient')),
          422: problem('the id is not usable'),
          ...REFUSALS,
        },
      },
    },
    ...operationPaths(),
    '/v1/outcomes': {
      get: {
        operationId: 'outcomes',
        summary: 'What became of notifications, as Server-Sent Events, where OUTCOMES_MAX is set. Scope: read',
        parameters: [
          {
            ...{ name: 'after', in: 'query', schema: text },
            description: '0: from the oldest one that is kept; or the id of an event. Default: from now on',
          },
          { name: 'Last-Event-ID', in: 'header', schema: text, description: 'as after, which it replaces' },
        ],
        responses: {
          200: {
            description: 'events: outcome (its data: Outcome), missed, off, problem',
            content: body('text/event-stream', text),
          },
          400: problem('the cursor is not usable'),
          ...REFUSALS,
        },
      },
    },
  };
}

/** A path for each operation on a recipient, from the schema of its fields. */
function operationPaths(): Schema {
  const paths = OPERATIONS.map((operation) => [
    `/v1/recipients/{id}/${operation.name}`,
    {
      post: {
        ...{ operationId: operation.name, summary: `${operation.does} Scope: ${operation.scope}` },
        parameters: [
          idInPath,
          {
            ...{ name: 'preview', in: 'query', schema: { enum: ['true', 'false'] } },
            description: 'true: answers what it would do, and changes nothing',
          },
        ],
        requestBody: { required: false, content: body('application/json', fieldsSchema(operation)) },
        responses: {
          200: answer('what was done, or with preview=true what would be done', {
            anyOf: [ref('Operated'), ref('WouldOperate')],
          }),
          400: problem('the body is not JSON'),
          409: problem('a newer version wrote what is stored for the recipient'),
          413: problem('the body is too large'),
          415: problem('not application/json'),
          422: problem('a field, or the id, is not usable: with every fault'),
          ...REFUSALS,
        },
      },
    },
  ]);
  return Object.fromEntries(paths) as Schema;
}

/** What a producer may send: as the worker checks it, but the id may be left out. */
function notification(): Schema {
  const here = import.meta.url.endsWith('.ts') ? '../docs' : '../../docs';
  const file = new URL(`${here}/notification.schema.json`, import.meta.url);
  const schema = JSON.parse(readFileSync(file, 'utf8')) as { readonly required: readonly string[] };
  return { ...schema, required: schema.required.filter((name) => name !== 'id') };
}

/** Of a notification that waits: its slot, the rule that makes it wait longest, and what fixes the slot. */
const SLOT_REASON = object(
  {
    ...{ at: instant, rule: text, ruleUntil: instant, before: integer, after: text, longestAfter: text },
    ...{ fixed: { type: 'object' }, longest: { type: 'object' }, block: { type: 'object' } },
  },
  ['at', 'rule', 'before'],
);

function schemas(): Schema {
  const fault = object({ path: text, expected: text, found: text });
  const result = { enum: ['added', 'duplicate', 'invalid', 'conflict', 'refused'] };
  const oneResult = object(
    { result, id: text, faults: { type: 'array', items: ref('Fault') }, detail: text, problem: ref('Problem') },
    ['result'],
  );
  return {
    Notification: notification(),
    Fault: fault,
    Problem: object(
      {
        type: text,
        title: text,
        status: integer,
        code: text,
        detail: text,
        faults: { type: 'array', items: ref('Fault') },
      },
      ['type', 'title', 'status', 'code', 'detail'],
    ),
    Enqueued: object(
      {
        id: text,
        result: { enum: ['added', 'duplicate'] },
        estimatedAt: { ...instant, description: 'when it would be sent, by the slots so far; epoch milliseconds' },
      },
      ['id', 'result'],
    ),
    Result: oneResult,
    LineResult: {
      anyOf: [{ allOf: [ref('Result'), object({ line: integer })] }, object({ end: { type: 'boolean' } })],
    },
    BatchResult: object({
      ...{ added: integer, duplicate: integer, invalid: integer, conflict: integer, refused: integer },
      results: { type: 'array', items: ref('Result') },
    }),
    Status: object(
      {
        ...{ id: text, state: { enum: ['waiting', 'sending', 'ended', 'dead-lettered'] } },
        ...{ until: instant, rule: text, ruleUntil: instant, before: integer },
        ...{
          outcome: { enum: OUTCOMES.filter((name) => name !== 'dead-lettered') },
          endedAt: instant,
          sentAt: instant,
        },
        ...{ waitMs: integer, devices: { type: 'object', additionalProperties: text } },
        ...{ reason: { enum: DEAD_LETTER_REASONS }, message: text, deadAt: instant, generation: integer },
        story: ref('Story'),
      },
      ['id', 'state', 'story'],
    ),
    Story: object(
      {
        ...{ recipientId: text, category: text, enqueuedAt: instant, enqueuedBy: text, replayedAt: instant },
        recorded: { type: 'boolean', description: 'whether passes are recorded: HISTORY_MAX of the workers' },
        ...{ passes: { type: 'array', items: ref('Pass') }, passesLeftOut: integer },
        why: { type: 'array', items: text, description: 'why it waits, or why it ended as it did and when: sentences' },
        slotReason: { ...SLOT_REASON, description: 'of one that has a slot ahead: why it has no earlier one' },
      },
      ['recorded', 'passes', 'passesLeftOut', 'why'],
    ),
    Pass: object(
      {
        ...{ at: instant, worker: text, result: text, rule: text, ruleUntil: instant, before: integer, until: instant },
        ...{ code: text, by: text, reason: text, message: text, deadAt: instant, slot: instant },
        ...{ lateMs: ms, wokenLateMs: ms, stalls: integer, silenced: { const: true } },
        sends: {
          type: 'array',
          items: object({ device: text, code: text, tookMs: ms, accepted: { const: true } }, [
            'device',
            'code',
            'tookMs',
          ]),
        },
      },
      ['at', 'result'],
    ),
    Outcome: object(
      {
        ...{ id: text, recipientId: text, category: text, platform: text, app: text, outcome: { enum: OUTCOMES } },
        ...{ reason: { enum: DEAD_LETTER_REASONS }, by: text, generation: integer, enqueuedAt: instant },
        ...{ silenced: { const: true }, sentAt: instant, waitMs: integer },
        devices: { type: 'object', additionalProperties: text },
      },
      ['id', 'outcome', 'generation', 'enqueuedAt', 'waitMs', 'devices'],
    ),
    Operated: object(
      {
        ...{ recipientId: text, did: { ...text, description: 'one sentence' }, moved: integer },
        ...{ waiting: { ...integer, description: 'for a slot, now' }, lastAt: instant },
        ...{ until: instant, reason: text, wasBlocked: { type: 'boolean' }, wasQuiet: { type: 'boolean' } },
        ...{ policy: { type: 'object' }, source: { enum: ['limiter', 'stored'] }, quiet: { type: 'object' } },
        ...{ wasKnown: { type: 'boolean' }, sent: integer, canceled: integer, tooLate: integer },
      },
      ['recipientId', 'did', 'waiting', 'moved'],
    ),
    WouldOperate: object(
      {
        ...{ recipientId: text, would: { ...text, description: 'sentences' }, now: instant, waiting: integer },
        ...{ moves: integer, earlier: integer, later: integer, lastAtBefore: instant, lastAtAfter: instant },
        expiring: { ...integer, description: 'of the first expiryKnown that move to later: those that expire before' },
        ...{ expiryKnown: integer, cancels: integer, tooLate: integer },
        slots: {
          ...{ type: 'array', description: 'the first 1,000 that move' },
          items: object({ id: text, from: instant, to: instant, rule: text, ruleUntil: instant }, [
            'from',
            'to',
            'rule',
          ]),
        },
      },
      ['recipientId', 'would', 'now', 'waiting', 'moves', 'earlier', 'later', 'expiring', 'expiryKnown', 'slots'],
    ),
    Recipient: object(
      {
        ...{ recipientId: text, now: instant, policy: { type: 'object' }, source: { enum: ['limiter', 'stored'] } },
        ...{ nextAt: instant, rule: text, waitingCount: integer },
        sent: { type: 'array', items: object({ at: instant }) },
        waiting: {
          type: 'array',
          items: object({ id: text, at: instant, rule: text, before: integer }, ['at', 'rule']),
        },
        ...{ delayed: { type: 'array' }, notTaken: { type: 'array' } },
      },
      ['recipientId', 'now', 'policy', 'sent', 'waiting', 'waitingCount', 'delayed', 'notTaken', 'nextAt', 'rule'],
    ),
  };
}

let made: Schema | undefined;

/** The description of the API, OpenAPI 3.1. */
export function openApiDocument(): Schema {
  made ??= {
    openapi: '3.1.0',
    info: { title: 'pushpacer', version: packageVersion(), license: { name: 'MIT', identifier: 'MIT' } },
    paths: paths(),
    security: [{ token: [] }],
    components: { schemas: schemas(), securitySchemes: { token: { type: 'http', scheme: 'bearer' } } },
  };
  return made;
}
