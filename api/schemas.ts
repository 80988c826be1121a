import { readFileSync } from 'node:fs';
import { DEAD_LETTER_REASONS, OUTCOMES } from '../src/notification/outcome.ts';
import { TAKINGS } from '../src/operations/taking.ts';

// The schemas of requests and answers, for the description of the API.

export type Schema = Readonly<Record<string, unknown>>;

export const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });
export const object = (properties: Readonly<Record<string, Schema>>, required = Object.keys(properties)): Schema => ({
  ...{ type: 'object', required, properties },
});
export const integer: Schema = { type: 'integer', minimum: 0 };
export const instant: Schema = { type: 'integer', description: 'epoch milliseconds' };
export const text: Schema = { type: 'string' };
export const ms: Schema = { type: 'number', minimum: 0, description: 'milliseconds' };

/** What a producer may send: as the worker checks it, but without the need for an id. */
function notification(): Schema {
  const here = import.meta.url.endsWith('.ts') ? '../docs' : '../../docs';
  const file = new URL(`${here}/notification.schema.json`, import.meta.url);
  const schema = JSON.parse(readFileSync(file, 'utf8')) as { readonly required: readonly string[] };
  return { ...schema, required: schema.required.filter((name) => name !== 'id') };
}

/** For a notification that waits: its slot, the rule that makes it wait longest, and what fixes the slot. */
const SLOT_REASON = object(
  {
    ...{ at: instant, rule: text, ruleUntil: instant, before: integer, after: text, longestAfter: text },
    ...{ fixed: { type: 'object' }, longest: { type: 'object' }, block: { type: 'object' } },
    ...{ goesBefore: integer, overtaken: integer },
  },
  ['at', 'rule', 'before'],
);

export function schemas(): Schema {
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
        ...{ note: text, wasNoted: { type: 'boolean' } },
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
    Admitted: object(
      {
        ...{ id: text, category: text, result: { const: 'admitted' }, at: instant, rule: text },
        repeated: { type: 'boolean', description: 'this id was admitted before: it may have been sent already' },
        ...{ remaining: integer, resetMs: ms },
      },
      ['id', 'result', 'at', 'repeated', 'rule'],
    ),
    Reserved: object(
      {
        ...{ id: text, category: text, result: { const: 'reserved' }, at: instant, waitMs: ms },
        againMs: { ...ms, description: 'ask again after this: waitMs, but at most 30 s, since the slot may move' },
        ...{ rule: text, before: integer, ruleUntil: instant },
      },
      ['id', 'result', 'at', 'waitMs', 'againMs', 'rule', 'before'],
    ),
    Refused: {
      allOf: [
        ref('Problem'),
        object(
          {
            ...{
              id: text,
              category: text,
              result: { const: 'refused' },
              because: { enum: ['max-wait', 'max-pending'] },
            },
            ...{ code: { const: 'limited' }, waitMs: ms, rule: text, before: integer, ruleUntil: instant },
          },
          ['id', 'result', 'because', 'waitMs', 'rule', 'before'],
        ),
      ],
    },
    Refunded: object({ id: text, category: text, result: { enum: ['refunded', 'canceled', 'unknown'] } }, [
      'id',
      'result',
    ]),
    Run: object(
      {
        ...{ id: text, verb: { enum: Object.keys(TAKINGS) }, by: text, beganAt: instant, endedAt: instant },
        state: { enum: ['running', 'done', 'stopped', 'failed'] },
        chosen: { type: 'object', description: 'the fields that chose, with fixed times and before' },
        of: { ...integer, description: 'how many were chosen; absent while they are counted' },
        ...{ done: integer, gone: { ...integer, description: 'others had taken them' }, byReason: { type: 'object' } },
        ...{ awaySince: instant, unsure: text, error: text },
      },
      ['id', 'verb', 'by', 'beganAt', 'state', 'chosen', 'done', 'gone', 'byReason'],
    ),
    WouldTake: object(
      {
        would: { ...text, description: 'sentences' },
        chosen: { type: 'object', description: 'the fields that choose the same later: with fixed times and before' },
        ...{ now: instant, count: integer, byReason: { type: 'object' } },
        newer: { ...integer, description: 'written by a newer version: they stay' },
        isWhole: { type: 'boolean', description: 'false: the look took too long, and counted the oldest' },
        ...{ recipients: integer, busiest: { type: 'object' }, expired: integer, lastAfterMs: ms },
      },
      ['would', 'chosen', 'count', 'byReason', 'newer', 'isWhole'],
    ),
    Overview: object(
      {
        ...{ ok: { type: 'boolean' }, now: instant, workersAlive: integer, jobs: { type: 'object' } },
        wrong: { type: 'array', items: { type: 'object' }, description: 'what is wrong; empty: all is well' },
        ...{ workers: { type: 'array' }, deadLetters: { type: 'object' }, shards: { type: 'object' } },
      },
      ['ok', 'now', 'wrong', 'workersAlive', 'workers', 'jobs', 'deadLetters', 'shards'],
    ),
    Recipient: object(
      {
        ...{ recipientId: text, now: instant, policy: { type: 'object' }, source: { enum: ['limiter', 'stored'] } },
        ...{ nextAt: instant, rule: text, waitingCount: integer },
        sent: { type: 'array', items: object({ at: instant }) },
        waiting: {
          type: 'array',
          items: object(
            { id: text, at: instant, rule: text, before: integer, goesBefore: integer, overtaken: integer },
            ['at', 'rule'],
          ),
        },
        ...{ delayed: { type: 'array' }, notTaken: { type: 'array' }, sending: { type: 'array' } },
        note: { ...object({ text, by: text, at: instant }), description: 'what operators noted' },
      },
      [
        ...['recipientId', 'now', 'policy', 'sent', 'waiting', 'waitingCount', 'delayed', 'notTaken', 'sending'],
        ...['nextAt', 'rule'],
      ],
    ),
  };
}
