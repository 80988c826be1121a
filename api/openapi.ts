import { z } from 'zod';
import { packageVersion } from '../src/observe/metrics.ts';
import { OPERATIONS } from '../src/operations/catalogue.ts';
import { TAKE, TAKINGS } from '../src/operations/taking.ts';
import { ADMIT_FIELDS, REFUND_FIELDS } from './admits.ts';
import { RETRACT_FIELDS, RETRACT_KEY_FIELDS } from './cancels.ts';
import { fieldsSchema } from './operations.ts';
import { integer, list, object, ref, schemas, text, type Schema } from './schemas.ts';

const body = (type: string, schema: Schema, example?: unknown) => ({
  [type]: { schema, ...(example !== undefined && { example }) },
});
const problem = (description: string) => ({ description, content: body('application/problem+json', ref('Problem')) });
const answer = (description: string, schema: Schema) => ({ description, content: body('application/json', schema) });
const NDJSON = 'application/x-ndjson';

const EXAMPLE = {
  id: 'msg-8841',
  recipientId: 'teacher-42',
  devices: [{ platform: 'fcm', token: 'REGISTRATION-TOKEN' }],
  alert: { title: 'Room 12', body: 'Field trip forms are due' },
};

const idInPath = { name: 'id', in: 'path', required: true, schema: text };
/** The possible answers to every request that needs a token. */
const REFUSALS = {
  401: problem('no valid token'),
  403: problem('the token has not the scope that this needs'),
  429: problem('too many wait, too much is under way, or requests without a valid token came; see Retry-After'),
  500: problem('a bug: the log of the server has the error'),
  503: problem('Redis does not answer; see Retry-After'),
};

const preview = {
  ...{ name: 'preview', in: 'query', schema: { enum: ['true', 'false'] } },
  description: 'true: answers what it would do, and changes nothing',
};
/** The possible answers to a body with fields. */
const FIELD_FAULTS = {
  400: problem('the body is not JSON'),
  408: problem('the body did not come whole within 30 s'),
  413: problem('the body is too large'),
  415: problem('not application/json, or compressed'),
  422: problem('a field, or the id, is not usable: with every fault'),
};

/** A body that has these fields. */
function ofFields(fields: z.ZodObject, required: boolean): Schema {
  return {
    required,
    content: body('application/json', { ...z.toJSONSchema(fields, { io: 'input' }), $schema: undefined }),
  };
}

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
            408: problem('the body did not come whole within 30 s'),
            409: problem('the id, or the Idempotency-Key, came before with other content'),
            413: problem('the body is too large'),
            415: problem('neither application/json nor application/x-ndjson, or compressed'),
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
    '/v1/notifications/{id}/retract': {
      post: {
        ...{ operationId: 'retract', parameters: [idInPath], requestBody: ofFields(RETRACT_FIELDS, false) },
        summary: 'Cancels a notification that waits, and takes one that was sent from its devices. Scope: send',
        responses: {
          202: answer(
            'what came of it; unknown: if it is enqueued within the next hour, it is not sent',
            object({ id: text, result: { enum: ['canceled', 'retracting', 'ended', 'unknown'] } }),
          ),
          ...FIELD_FAULTS,
          ...REFUSALS,
        },
      },
    },
    '/v1/recipients/{id}/retract': {
      post: {
        ...{ operationId: 'retractByKey', parameters: [idInPath], requestBody: ofFields(RETRACT_KEY_FIELDS, true) },
        summary: 'Retracts what waits for a recipient, or was sent, under a cancellation key. Scope: send',
        responses: {
          202: answer('how many', object({ canceled: integer, retracting: integer, ended: integer, unknown: integer })),
          ...FIELD_FAULTS,
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
    ...admitPaths(),
    ...deadLetterPaths(),
    '/v1/status': {
      get: {
        operationId: 'overview',
        summary: 'How workers and queue are, and what is wrong. Scope: read',
        responses: { 200: answer('what status --json prints', ref('Overview')), ...REFUSALS },
      },
    },
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

/** A path for each operation on a recipient, made from the schema of the operation's fields. */
function operationPaths(): Schema {
  const paths = OPERATIONS.map((operation) => [
    `/v1/recipients/{id}/${operation.name}`,
    {
      post: {
        ...{ operationId: `${operation.name}Recipient`, summary: `${operation.does} Scope: ${operation.scope}` },
        parameters: [idInPath, preview],
        requestBody: { required: false, content: body('application/json', fieldsSchema(operation.fields)) },
        responses: {
          200: answer('what was done, or with preview=true what would be done', {
            anyOf: [ref('Operated'), ref('WouldOperate')],
          }),
          409: problem('a newer version wrote what is stored for the recipient'),
          ...FIELD_FAULTS,
          ...REFUSALS,
        },
      },
    },
  ]);
  return Object.fromEntries(paths) as Schema;
}

/** The paths for slots that other programs take. */
function admitPaths(): Schema {
  const refused = { anyOf: [ref('Refused'), ref('Problem')] };
  const common = {
    409: problem('a newer version wrote what is stored for the recipient'),
    ...FIELD_FAULTS,
    ...REFUSALS,
  };
  return {
    '/v1/recipients/{id}/admit': {
      post: {
        ...{ operationId: 'admit', parameters: [idInPath, preview], requestBody: ofFields(ADMIT_FIELDS, true) },
        summary: 'Takes a slot of the recipient for what another program sends. Scope: limit',
        responses: {
          ...common,
          200: answer('it has a slot: send now', ref('Admitted')),
          202: answer('a slot is reserved: ask again in againMs milliseconds, with the same id', ref('Reserved')),
          429: {
            description:
              'no slot, and nothing was written; or too many requests without a valid token came; see Retry-After',
            content: body('application/problem+json', refused),
          },
        },
      },
    },
    '/v1/recipients/{id}/refund': {
      post: {
        ...{ operationId: 'refund', parameters: [idInPath], requestBody: ofFields(REFUND_FIELDS, true) },
        summary: 'Gives back a slot that was not used. Scope: limit',
        responses: { ...common, 200: answer('what came of it', ref('Refunded')) },
      },
    },
    '/metrics': {
      get: {
        ...{ operationId: 'metrics', summary: 'What this process counted of slots, for Prometheus. Scope: read' },
        responses: { 200: { description: 'the metrics', content: body('text/plain', text) }, ...REFUSALS },
      },
    },
  };
}

/** The paths for replays and discards of dead letters, which are runs. */
function deadLetterPaths(): Schema {
  const taking = Object.values(TAKINGS).map(({ name, does, scope }) => [
    `/v1/dead-letters/${name}`,
    {
      post: {
        ...{ operationId: `${name}DeadLetters`, summary: `${does} Scope: ${scope}`, parameters: [preview] },
        requestBody: { required: true, content: body('application/json', fieldsSchema(TAKE)) },
        responses: {
          200: answer('with preview=true: what it would come to', ref('WouldTake')),
          202: answer('a run has begun; its address is in Location', ref('Run')),
          409: problem('so many go on in this process already'),
          ...FIELD_FAULTS,
          ...REFUSALS,
        },
      },
    },
  ]);
  const run = { 200: answer('the run', ref('Run')), 404: problem('this process knows no such run'), ...REFUSALS };
  return {
    ...Object.fromEntries(taking),
    '/v1/dead-letters/runs': {
      get: {
        ...{ operationId: 'runs', summary: 'The runs of this process, the newest first. Scope: read' },
        responses: { 200: answer('all', object({ runs: list(ref('Run')) })), ...REFUSALS },
      },
    },
    '/v1/dead-letters/runs/{id}': {
      get: {
        ...{ operationId: 'run', summary: 'How far a run is. Scope: read', parameters: [idInPath], responses: run },
      },
    },
    '/v1/dead-letters/runs/{id}/stop': {
      post: {
        ...{ operationId: 'stopRun', parameters: [idInPath], responses: run },
        summary: 'Stops a run before its next dead letter. What it has not taken stays. Scope: operate',
      },
    },
  } as Schema;
}

let made: Schema | undefined;
let written: string | undefined;

/** The description of the API as JSON. It is written once, since anybody may ask for it. */
export function openApiText(): string {
  written ??= JSON.stringify(openApiDocument());
  return written;
}

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
