import { expect, it } from 'vitest';
import { operationOf } from '../../src/operations/catalogue.ts';
import { ask, type Asked } from '../../src/operations/operation.ts';
import { previewOperation, runOperation } from '../../src/operations/run.ts';
import { HOUR, openLine } from './line.ts';

// What each operation does, says and writes down, whoever asks for it. The terminal, the console and the HTTP API each make their part
// from it: their tests hold how fields come to it, and how its answer is shown.

const ID = 'teacher-42';
const NOBODY = 'teacher-7';
const POLICY = { rules: [{ max: 10, perMs: HOUR }], minGapMs: 60_000 };
const UNTIL = Math.ceil(Date.now() / 1_000) * 1_000 + 3 * HOUR;
const NIGHT = { from: '21:00', until: '07:00' };
const SEVERAL = { timezone: 'Europe/Paris', quietHours: [NIGHT, { from: '13:00', until: '14:00', days: ['sat'] }] };

type Step = readonly [name: string, fields?: object];

function asking([name, fields = {}]: Step, recipientId = ID): Asked {
  const operation = operationOf(name);
  if (operation === undefined) throw new TypeError(`no operation ${name}`);
  return ask(operation, recipientId, fields);
}

/** One was sent to teacher-42, and three wait, each a minute behind the one before it. Of teacher-7 nothing is known. */
async function open() {
  const line = await openLine(POLICY);
  const cancellationKey = 'trip';
  await line.wait('alert', { id: 'a' }, { id: 'b', cancellationKey }, { id: 'c' }, { id: 'd', cancellationKey });
  const run = (step: Step, recipientId?: string) => runOperation(asking(step, recipientId), line.operating, 'olga');
  return { ...line, run };
}

interface Row {
  readonly step: Step;
  /** What was done before. */
  readonly after?: Step;
  readonly on?: string;
  readonly did: string;
  /** Of its JSON. */
  readonly fields: object;
  /** In the audit. */
  readonly facts?: object;
  /** How many move, or are canceled; absent where the time of the day decides. */
  readonly count?: number;
  /** The recipient then. */
  readonly state?: object;
}

const like = (pattern: RegExp) => expect.stringMatching(pattern) as string;
const BLOCK: Step = ['block', { for: '2h', reason: 'exam' }];
const IN_FORCE = 'in force is 10/1h, gap 1m';

it.each<Row>([
  {
    ...{ step: BLOCK, did: like(/^teacher-42 is blocked until \S+Z \(in 2h\): exam$/), count: 3 },
    ...{ fields: { until: expect.any(Number) as number, reason: 'exam' }, facts: { reason: 'exam', moved: 3 } },
    state: { block: { reason: 'exam' } },
  },
  {
    ...{ step: ['block', { until: new Date(UNTIL).toISOString(), reason: 'a' }], count: 3 },
    ...{ did: like(/ is blocked until /), fields: { until: UNTIL, reason: 'a' }, facts: { until: UNTIL } },
    state: { block: { until: UNTIL, reason: 'a' } },
  },
  {
    ...{ step: ['unblock'], after: BLOCK, did: 'teacher-42 is not blocked any more' },
    ...{ fields: { wasBlocked: true }, facts: { moved: 3 }, count: 3 },
  },
  {
    ...{ step: ['unblock'], on: NOBODY, did: 'teacher-7 was not blocked', fields: { wasBlocked: false }, count: 0 },
  },
  {
    step: ['limit', { rules: '5/1m,50/1h', minGap: '10s', for: '7d' }],
    did: like(/^teacher-42 is limited to 5\/1m, 50\/1h, gap 10s until \S+Z \(in 7d\)$/),
    fields: {
      ...{ source: 'stored', until: expect.any(Number) as number },
      policy: {
        rules: [
          { max: 5, perMs: 60_000 },
          { max: 50, perMs: HOUR },
        ],
        minGapMs: 10_000,
      },
    },
    ...{ facts: { rules: '5/1m,50/1h', minGap: '10s', moved: 3 }, count: 3 },
  },
  {
    ...{ step: ['limit', { rules: '5/1m' }], did: 'teacher-42 is limited to 5/1m, gap 1m, without an end', count: 0 },
    fields: { source: 'stored', policy: { rules: [{ max: 5, perMs: 60_000 }], minGapMs: 60_000 } },
    facts: { rules: '5/1m', minGap: '1m' },
  },
  {
    ...{ step: ['limit', { minGap: '0' }], did: 'teacher-42 is limited to 10/1h, no gap, without an end', count: 3 },
    ...{ fields: { policy: { ...POLICY, minGapMs: 0 } }, facts: { rules: '10/1h', minGap: '0' } },
  },
  {
    ...{ step: ['limit', { rules: 'none' }], did: 'teacher-42 is limited to gap 1m, without an end', count: 0 },
    ...{ fields: { policy: { rules: [], minGapMs: 60_000 } }, facts: { rules: 'none', minGap: '1m' } },
  },
  {
    ...{
      step: ['unlimit'],
      after: ['limit', { minGap: '5m' }],
      fields: { source: 'limiter', policy: POLICY },
      count: 3,
    },
    did: `teacher-42 has no limits of its own any more; ${IN_FORCE}`,
  },
  {
    ...{ step: ['unlimit'], on: NOBODY, fields: { source: 'limiter' }, count: 0 },
    did: `teacher-7 had no limits of its own; ${IN_FORCE}`,
  },
  {
    step: ['quiet', { timezone: 'Europe/Paris', ...NIGHT, days: 'mon-fri' }],
    did: 'teacher-42 has quiet hours: mon,tue,wed,thu,fri 21:00-07:00, Europe/Paris',
    fields: {
      quiet: {
        source: 'stored',
        hours: { timezone: 'Europe/Paris', quietHours: [{ days: ['mon', 'tue', 'wed', 'thu', 'fri'], ...NIGHT }] },
      },
    },
    facts: { timezone: 'Europe/Paris', from: '21:00', until: '07:00', days: 'mon,tue,wed,thu,fri' },
  },
  {
    ...{ step: ['quiet', SEVERAL], did: like(/ has quiet hours: 21:00-07:00, sat 13:00-14:00, Europe\/Paris$/) },
    ...{ fields: { quiet: { hours: SEVERAL } }, facts: { quietHours: like(/^21:00-07:00, /) } },
  },
  {
    ...{ step: ['quiet', { none: true }], did: 'teacher-42 has quiet hours: none', facts: { none: 'true' }, count: 0 },
    fields: { quiet: { source: 'stored', hours: { quietHours: [] } } },
  },
  {
    ...{ step: ['unquiet'], after: ['quiet', { none: true }], fields: { wasQuiet: true }, count: 0 },
    did: 'teacher-42 has no quiet hours of its own any more',
  },
  {
    ...{ step: ['unquiet'], on: NOBODY, did: 'teacher-7 had no quiet hours of its own', count: 0 },
    fields: { wasQuiet: false },
  },
  {
    ...{ step: ['reset'], did: 'forgot 1 sent to teacher-42', fields: { wasKnown: true, sent: 1 }, count: 3 },
    ...{ facts: { moved: 3 }, state: { sent: [] } },
  },
  {
    ...{ step: ['reset'], after: BLOCK, did: 'forgot 1 sent to teacher-42', fields: { sent: 1 }, count: 0 },
    state: { block: { reason: 'exam' }, reserved: [{ id: 'b/0' }, { id: 'c/0' }, { id: 'd/0' }] },
  },
  {
    ...{ step: ['reset'], on: NOBODY, did: 'nothing was sent to teacher-7 lately', count: 0 },
    fields: { wasKnown: false, sent: 0 },
  },
  {
    ...{ step: ['cancel', { key: 'trip' }], did: 'canceled 2', fields: { canceled: 2, tooLate: 0 }, count: 2 },
    facts: { key: 'trip', canceled: 2, tooLate: 0 },
  },
  {
    ...{ step: ['cancel', { notification: 'c' }], did: 'canceled 1', fields: { canceled: 1, tooLate: 0 }, count: 1 },
    facts: { notification: 'c', canceled: 1, tooLate: 0 },
  },
])('$step after $after on $on', async ({ step, after, on = ID, did, fields, facts = {}, count, state = {} }) => {
  const { operating, limiters, audit, run, dueAt, stored } = await open();
  if (after !== undefined) await run(after);
  const asked = asking(step, on);
  const before = await stored();
  const { preview } = await previewOperation(asked, operating);
  expect(await stored()).toEqual(before);
  const foreseen = 'cancels' in preview ? preview.cancels : preview.moves;

  const done = await run(step, on);
  expect(done.text).toEqual(did);
  expect(done.fields).toMatchObject(fields);
  expect(asked.operation.answers).toEqual(expect.arrayContaining(Object.keys(done.fields)));
  expect([foreseen, done.count]).toEqual(Array(2).fill(count ?? done.count));
  const [entry] = await audit.read({ count: 1 });
  expect(entry).toMatchObject({ who: 'olga', action: `recipient ${step[0]}`, on, facts });
  const inspected = await limiters.alert.inspect(on);
  expect(inspected).toMatchObject(state);
  const slots = done.reserved.map(({ id, at }) => [id, at] as const);
  expect(slots).toEqual(inspected.reserved.map(({ id, at }) => [id, at]));
  if (done.moved < slots.length) return;
  for (const [id = '', at] of slots) {
    const lead = at - (await dueAt(id.replace('/0', '')));
    expect(lead).toBeGreaterThanOrEqual(0);
    expect(lead).toBeLessThanOrEqual(25); // as when a worker puts a job back
  }
});

it('a block is at every limiter, and is ended at each, also where only one has it', async () => {
  const { limiters, run } = await open();
  const blocks = async () =>
    Promise.all(Object.values(limiters).map(async (limiter) => (await limiter.inspect(ID)).block));
  const { fields } = await run(BLOCK);
  expect(await blocks()).toEqual(Array(3).fill({ until: fields['until'], reason: 'exam' }));
  expect((await run(['unblock'])).fields).toEqual({ wasBlocked: true });
  expect(await blocks()).toEqual(Array(3).fill(undefined));
  await limiters.background.block(ID, { until: UNTIL, reason: 'only there' });
  expect((await run(['unblock'])).fields).toEqual({ wasBlocked: true });
});

it('nothing of another recipient is canceled, nor is what is refused in the audit', async () => {
  const { producer, run, wait, audit } = await open();
  await wait('alert', { id: 'before', recipientId: NOBODY }, { id: 'other', recipientId: NOBODY });
  const expected = 'notification: expected the id of a notification of this recipient that waits, found "other"';
  await expect(run(['cancel', { notification: 'other' }])).rejects.toThrow(expected);
  await expect(run(['block', { until: '2020-01-01T00:00:00Z', reason: 'a' }])).rejects.toThrow('until: expected');
  expect(await audit.read({ count: 9 })).toEqual([]);
  expect(await producer.cancel({ id: 'other' })).toEqual({ canceled: 1, tooLate: 0 });
});
