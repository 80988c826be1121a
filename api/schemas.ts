import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { isObject } from '../src/domain/json.ts';
import { EXEMPTIONS } from '../src/domain/limits.ts';
import { DAYS } from '../src/domain/quiet-hours.ts';
import { DEAD_LETTER_REASONS, OUTCOMES } from '../src/notification/outcome.ts';
import { TAKINGS } from '../src/operations/taking.ts';
import { workerFactsSchema } from '../src/queue/workers.ts';

// The schemas of requests and answers, for the description of the API. From an object without `properties` and without
// `additionalProperties`, a generated client would know no field.

export type Schema = Readonly<Record<string, unknown>>;

export const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });
export const object = (properties: Readonly<Record<string, Schema>>, required = Object.keys(properties)): Schema => ({
  ...{ type: 'object', required, properties },
});
export const integer: Schema = { type: 'integer', minimum: 0 };
export const instant: Schema = { type: 'integer', description: 'epoch milliseconds' };
export const text: Schema = { type: 'string' };
export const ms: Schema = { type: 'number', minimum: 0, description: 'milliseconds' };
export const list = (items: Schema): Schema => ({ type: 'array', items });
const boolean: Schema = { type: 'boolean' };
/** An object with any names, whose values all fit `value`. */
const mapOf = (value: Schema): Schema => ({ type: 'object', additionalProperties: value });

/**
 * What a producer may send: the schema of the worker's check, but the id is optional. `default` is left out, since a generated
 * client would demand such a field. An object that may have any fields says so.
 */
function notification(): Schema {
  const here = import.meta.url.endsWith('.ts') ? '../docs' : '../../docs';
  const file = new URL(`${here}/notification.schema.json`, import.meta.url);
  const schema = JSON.parse(readFileSync(file, 'utf8'), (name, value: unknown) => {
    if (name === 'default') return undefined;
    const isAny = isObject(value) && value['type'] === 'object' && value['properties'] === undefined;
    return isAny ? { additionalProperties: {}, ...value } : value;
  }) as { readonly required: readonly string[] };
  return { ...schema, required: schema.required.filter((name) => name !== 'id') };
}

/** Fields that an object always has, and those that it may have. */
const record = (always: Readonly<Record<string, Schema>>, sometimes: Readonly<Record<string, Schema>>): Schema =>
  object({ ...always, ...sometimes }, Object.keys(always));

const RULE = { max: integer, perMs: integer };
const POLICY = { rules: list(ref('Rule')), minGapMs: integer };
/** The fields of a slot that waits. */
const CAUSE = { at: instant, rule: text, before: integer };
const MORE_CAUSE = { ruleUntil: instant, goesBefore: integer, overtaken: integer };
const SOURCE = { enum: ['limiter', 'stored'] };

/** Limits, blocks and quiet hours, and why a slot is not earlier. */
function limitSchemas(): Readonly<Record<string, Schema>> {
  const quietTime = record({ from: text, until: text }, { days: list({ enum: DAYS }) });
  const after = record({ at: instant, isSent: boolean }, { entry: text });
  const end = object({ rule: { enum: ['block', 'quiet', 'limits'] }, until: instant });
  return {
    Rule: object(RULE),
    Policy: object(POLICY),
    CategoryPolicy: record(POLICY, { exempt: list({ enum: EXEMPTIONS }) }),
    Block: object({ until: instant, reason: text }),
    QuietHours: object({ timezone: text, quietHours: list(quietTime) }),
    Quiet: record({ hours: ref('QuietHours'), source: SOURCE }, { until: instant }),
    LimitReason: object({ rule: text, ...RULE, after }),
    SlotReason: record(
      { now: instant, ...CAUSE },
      {
        ...{ ...MORE_CAUSE, after: text, longestAfter: text },
        ...{ fixed: { anyOf: [ref('LimitReason'), end] }, longest: ref('LimitReason'), block: ref('Block') },
      },
    ),
  };
}

/** A recipient, with what was sent to it and what waits. */
function recipientSchema(): Schema {
  const job = {
    ...{ id: text, priority: { enum: ['high', 'normal'] }, enqueuedAt: instant },
    ...{ attempts: integer, requeues: integer },
  };
  const ofSome = { replay: integer, category: text };
  const waiting = { ...job, waitsFor: text };
  const looked = object({ lookedAt: integer, of: integer });
  const slots = {
    sent: list(record({ at: instant }, { id: text })),
    ...{ waitingCount: integer, waiting: list(record(CAUSE, { id: text, ...MORE_CAUSE })) },
  };
  const apart = (of: string): Schema => ({
    ...object({ rules: list(ref('Rule')), ...slots }),
    description: `${of}, which are counted apart; absent if none was sent and none waits`,
  });
  return record(
    {
      ...{ recipientId: text, now: instant, policy: ref('Policy'), source: SOURCE, nextAt: instant, rule: text },
      ...slots,
      delayed: list(record({ ...waiting, dueAt: instant }, ofSome)),
      notTaken: list(record(waiting, ofSome)),
      sending: list(record(job, { ...ofSome, at: instant, takenAt: instant })),
      lookedThrough: {
        ...object({ delayed: looked, notTaken: looked }),
        description: 'of all recipients: with less looked at than there are, delayed and notTaken may lack some',
      },
    },
    {
      ...{ policyUntil: instant, block: ref('Block'), quiet: ref('Quiet') },
      note: { ...object({ text, by: text, at: instant }), description: 'what operators noted' },
      ...{ background: apart('background pushes'), liveActivity: apart('Live Activities without an alert') },
    },
  );
}

/** A worker, as it describes itself. Workers of other versions may say more. */
function workerSchema(): Schema {
  const { properties, required = [] } = z.toJSONSchema(workerFactsSchema, {
    override({ jsonSchema }) {
      delete jsonSchema.additionalProperties;
      delete jsonSchema.default;
    },
  });
  const seen = { seenAt: instant, silentMs: ms, alive: boolean };
  const all = { ...(properties as Readonly<Record<string, Schema>>), ...seen, policyId: text };
  return object(all, [...required, ...Object.keys(seen)]);
}

/** What `status --json` prints. */
function overviewSchema(): Schema {
  const backlog = record({ count: integer }, { oldestAt: instant });
  const recipient = record({ recipientId: text, waiting: integer, since: instant }, { until: instant });
  const byReason = mapOf(integer);
  const ofService = { app: text, server: text };
  const told = { platform: text, since: instant, workers: integer };
  return record(
    {
      ...{ ok: boolean, now: instant, workersAlive: integer, workers: list(workerSchema()) },
      wrong: { ...list(object({ kind: text, text })), description: 'what is wrong; empty: all is well' },
      ...{ jobs: mapOf(integer), paused: boolean, due: backlog, untaken: backlog, outcomes: integer },
      waiting: record(
        {
          ...{ lookedAt: integer, of: integer, byRule: mapOf(integer), credentials: mapOf(integer), newer: integer },
          recipients: list(recipient),
        },
        { oldestAt: instant },
      ),
      deadLetters: object({
        ...{ total: integer, lookedAt: integer, byReason, lastHour: integer, lastHourByReason: byReason },
      }),
      shards: object({
        ...{ version: integer, phase: { enum: ['steady', 'prepare', 'move'] } },
        ...{ from: integer, to: integer, left: integer },
      }),
      policies: list(
        record(
          {
            ...{ id: text, workers: integer, policy: ref('Policy'), categories: mapOf(ref('CategoryPolicy')) },
            apartRules: mapOf(list(ref('Rule'))),
          },
          { quietHours: ref('QuietHours') },
        ),
      ),
      breakers: list(record({ ...told, trouble: text, code: text, until: instant }, ofService)),
      unreachable: list(record({ ...told, host: text, cause: text }, ofService)),
      losses: list(
        record(
          {
            ...{ redis: { enum: ['queue', 'limiter'] }, kind: { enum: ['emptied', 'older', 'evicted'] } },
            ...{ at: instant, server: object({ runId: text, isSame: boolean }) },
          },
          { from: instant, to: instant, evicted: integer, since: instant },
        ),
      ),
    },
    { noWrites: text },
  );
}

export function schemas(): Schema {
  const fault = object({ path: text, expected: text, found: text });
  const result = { enum: ['added', 'duplicate', 'invalid', 'conflict', 'refused'] };
  const counts = { added: integer, duplicate: integer, invalid: integer, conflict: integer, refused: integer };
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
      anyOf: [
        { allOf: [ref('Result'), object({ line: integer })] },
        object({ end: boolean, ...counts, problem: text }, ['end', ...Object.keys(counts)]),
      ],
    },
    BatchResult: object({ ...counts, results: list(ref('Result')) }),
    Status: object(
      {
        ...{ id: text, state: { enum: ['waiting', 'sending', 'ended', 'dead-lettered'] } },
        ...{ until: instant, rule: text, ruleUntil: instant, before: integer },
        ...{
          outcome: { enum: OUTCOMES.filter((name) => name !== 'dead-lettered') },
          ...{ by: text, silenced: { const: true }, maybeShown: { const: true }, endedAt: instant, sentAt: instant },
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
        slotReason: { ...ref('SlotReason'), description: 'of one that has a slot ahead: why it has no earlier one' },
        retractions: list(ref('Retraction')),
        retracts: { ...list(text), description: 'of a retraction: the ids that it takes from devices' },
      },
      ['recorded', 'passes', 'passesLeftOut', 'why'],
    ),
    Retraction: {
      ...record(
        { id: text, state: text },
        { until: instant, outcome: { enum: OUTCOMES }, endedAt: instant, devices: mapOf(text) },
      ),
      description: 'takes the notification from its devices',
    },
    Pass: object(
      {
        ...{ at: instant, worker: text, result: text, rule: text, ruleUntil: instant, before: integer, until: instant },
        ...{ code: text, by: text, reason: text, message: text, deadAt: instant, slot: instant },
        ...{ lateMs: ms, wokenLateMs: ms, stalls: integer },
        ...{ silenced: { const: true }, maybeShown: { const: true } },
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
        ...{ silenced: { const: true }, maybeShown: { const: true }, sentAt: instant, waitMs: integer },
        retracted: { ...list(text), description: 'of a retracted one: the ids that it took from devices' },
        devices: { type: 'object', additionalProperties: text },
      },
      ['id', 'outcome', 'generation', 'enqueuedAt', 'waitMs', 'devices'],
    ),
    Operated: object(
      {
        ...{ recipientId: text, did: { ...text, description: 'one sentence' }, moved: integer },
        ...{ waiting: { ...integer, description: 'for a slot, now' }, lastAt: instant },
        ...{ until: instant, reason: text, wasBlocked: boolean, wasQuiet: boolean },
        ...{ note: text, wasNoted: boolean },
        ...{ policy: ref('Policy'), source: SOURCE, quiet: ref('Quiet') },
        ...{ wasKnown: boolean, sent: integer, canceled: integer, tooLate: integer },
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
    Chosen: object(
      {
        ...{
          reason: { enum: DEAD_LETTER_REASONS },
          recipient: text,
          platform: text,
          app: text,
          category: text,
          id: text,
        },
        ...{ since: text, until: text, all: { const: true }, pick: list(text), rate: text, before: instant },
      },
      ['rate', 'before'],
    ),
    Run: object(
      {
        ...{ id: text, verb: { enum: Object.keys(TAKINGS) }, by: text, beganAt: instant, endedAt: instant },
        state: { enum: ['running', 'done', 'stopped', 'failed'] },
        chosen: { ...ref('Chosen'), description: 'the fields that chose, with fixed times and before' },
        of: {
          ...integer,
          description: 'how many were chosen; absent while they are counted, and if it ended before all were',
        },
        ...{ done: integer, gone: { ...integer, description: 'others had taken them' }, byReason: mapOf(integer) },
        ...{ awaySince: instant, unsure: text, error: text },
      },
      ['id', 'verb', 'by', 'beganAt', 'state', 'chosen', 'done', 'gone', 'byReason'],
    ),
    WouldTake: object(
      {
        would: { ...text, description: 'sentences' },
        chosen: { ...ref('Chosen'), description: 'the fields that choose the same later: with fixed times and before' },
        ...{ now: instant, count: integer, byReason: mapOf(integer) },
        newer: { ...integer, description: 'written by a newer version: they stay' },
        isWhole: { type: 'boolean', description: 'false: the look took too long, and counted the oldest' },
        ...{ recipients: integer, busiest: object({ recipientId: text, count: integer }) },
        ...{ expired: integer, lastAfterMs: ms },
      },
      ['would', 'chosen', 'count', 'byReason', 'newer', 'isWhole'],
    ),
    ...limitSchemas(),
    ...{ Overview: overviewSchema(), Recipient: recipientSchema() },
  };
}
