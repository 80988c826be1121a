import { expect, it } from 'vitest';
import type { Follow } from '../../src/limiter/limiter.ts';
import { operationOf } from '../../src/operations/catalogue.ts';
import { ask, type Asked } from '../../src/operations/operation.ts';
import { previewOperation, runOperation } from '../../src/operations/run.ts';
import { HOUR, openLine } from './line.ts';

// What each operation does, and writes into the audit, whoever asks for it; what it says is in catalogue.test.ts. The terminal, the
// console and the HTTP API each make their part from it: their tests hold how fields come to it, and how its answer is shown.

const ID = 'teacher-42';
const NOBODY = 'teacher-7';
const POLICY = { rules: [{ max: 10, perMs: HOUR }], minGapMs: 60_000 };
const UNTIL = Math.ceil(Date.now() / 1_000) * 1_000 + 3 * HOUR;
const SEVERAL = {
  timezone: 'Europe/Paris',
  quietHours: [
    { from: '21:00', until: '07:00' },
    { days: ['sat'], from: '13:00', until: '14:00' },
  ],
};

type Step = readonly [name: string, fields?: object];

const BLOCK: Step = ['block', { until: UNTIL, reason: 'exam' }];
const NONE_QUIET: Step = ['quiet', { none: true }];

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

/** `count`: how many move, or are canceled; undefined where the time of the day decides. `fields`: of its JSON. */
it.each<readonly [step: Step, before: Step | undefined, count: number | undefined, fields: object]>([
  [BLOCK, undefined, 3, { until: UNTIL, reason: 'exam' }],
  [['unblock'], BLOCK, 3, { wasBlocked: true }],
  [['limit', { minGap: '10s', until: UNTIL }], undefined, 3, { policy: { ...POLICY, minGapMs: 10_000 }, until: UNTIL }],
  [['limit', { minGap: '0' }], undefined, 3, { policy: { ...POLICY, minGapMs: 0 }, source: 'stored' }],
  [['limit', { rules: 'none' }], undefined, 0, { policy: { ...POLICY, rules: [] } }],
  [['unlimit'], ['limit', { minGap: '5m' }], 3, { policy: POLICY, source: 'limiter' }],
  [['quiet', SEVERAL], undefined, undefined, { quiet: { hours: SEVERAL, source: 'stored' } }],
  [NONE_QUIET, undefined, 0, { quiet: { hours: { quietHours: [] } } }],
  [['unquiet'], NONE_QUIET, 0, { wasQuiet: true }],
  [['reset'], undefined, 3, { wasKnown: true, sent: 1 }],
  [['reset'], BLOCK, 0, { wasKnown: true, sent: 1 }],
  [['cancel', { key: 'trip' }], undefined, 2, { canceled: 2, tooLate: 0 }],
  [['cancel', { notification: 'c' }], undefined, 1, { canceled: 1, tooLate: 0 }],
])('%j after %j: as many move as its preview says, and their jobs with them', async (step, before, count, fields) => {
  const { operating, limiters, audit, run, dueAt, stored } = await open();
  if (before !== undefined) await run(before);
  const asked = asking(step);
  const storedBefore = await stored();
  const { preview, settled } = await previewOperation(asked, operating);
  expect(await stored()).toEqual(storedBefore);
  const foreseen = 'cancels' in preview ? preview.cancels : preview.moves;

  const done = await run(step);
  expect([foreseen, done.count]).toEqual(Array(2).fill(count ?? done.count));
  expect(done.fields).toMatchObject(fields);
  expect(asked.operation.answers).toEqual(expect.arrayContaining(Object.keys(done.fields)));
  const counts = 'cancels' in preview ? { canceled: done.count, tooLate: 0 } : { moved: done.moved };
  const action = `recipient ${step[0]}`;
  const [entry] = await audit.read({ count: 1 });
  expect(entry).toMatchObject({ who: 'olga', action, on: ID });
  expect(entry?.facts).toEqual({ ...settled, ...counts });
  const slots = done.reserved.map(({ id, at }) => [id, at] as const);
  expect(slots).toEqual((await limiters.alert.inspect(ID)).reserved.map(({ id, at }) => [id, at]));
  if (done.moved < slots.length) return;
  for (const [id = '', at] of slots) {
    const lead = at - (await dueAt(id.replace('/0', '')));
    expect(lead).toBeGreaterThanOrEqual(0);
    expect(lead).toBeLessThanOrEqual(25); // as when a worker puts a job back
  }
});

it.each([
  ['unblock', { wasBlocked: false }],
  ['unlimit', { source: 'limiter' }],
  ['unquiet', { wasQuiet: false }],
  ['reset', { wasKnown: false, sent: 0 }],
])('%s says of a recipient of whom nothing is known that there was nothing', async (name, fields) => {
  const { run, audit } = await open();
  expect(await run([name], NOBODY)).toMatchObject({ fields, moved: 0, reserved: [] });
  expect(await audit.read({ count: 1 })).toMatchObject([{ action: `recipient ${name}`, on: NOBODY }]);
});

it('one that ended before it woke the jobs may be done again, and then wakes them', async () => {
  const { limiters, operating, run, dueAt } = await open();
  await run(BLOCK);
  for (const id of ['b', 'c', 'd']) await (await operating.queues[0]?.getJob(id))?.updateProgress({ rule: 'block' });
  await limiters.alert.unblock(ID); // the process that did it was killed here
  expect(await dueAt('b')).toBeGreaterThan(Date.now() + 2 * HOUR);
  const { reserved, moved } = await run(['unblock']);
  expect(moved).toBe(3); // their jobs
  for (const [index, id] of ['b', 'c', 'd'].entries()) {
    const lead = (reserved[index]?.at ?? NaN) - (await dueAt(id));
    expect(lead).toBeGreaterThanOrEqual(0);
    expect(lead).toBeLessThanOrEqual(25);
  }
});

/** The process of the operator ends when the limiter calls this. */
async function diesAt(at: 'onMoving' | 'onMoved', { limiters, operating }: Awaited<ReturnType<typeof open>>) {
  const { alert } = limiters;
  const die = () => Promise.reject(new Error('killed'));
  const unblock = (id: string, follow: Follow = {}) =>
    alert.unblock(id, {
      ...follow,
      ...(at === 'onMoved'
        ? { onMoved: die }
        : { onMoving: (part) => Promise.resolve(follow.onMoving?.(part)).then(die) }),
    });
  const parts = { ...operating, limiters: { ...limiters, alert: { ...alert, unblock } } };
  await expect(runOperation(asking(['unblock']), parts, 'olga')).rejects.toThrow('killed');
}

it.each(['onMoving', 'onMoved'] as const)(
  'one that ended at %s leaves no job that comes later than its slot, and what is left is done by the next one',
  async (at) => {
    const line = await open();
    const { limiters, run, dueAt } = line;
    await run(BLOCK);
    const blocked = (await limiters.alert.inspect(ID)).reserved.map((slot) => slot.at);
    await diesAt(at, line);
    const slots = (await limiters.alert.inspect(ID)).reserved.map((slot) => slot.at);
    if (at === 'onMoving') expect(slots).toEqual(blocked);
    else expect(Math.max(...slots)).toBeLessThan(UNTIL);
    // Nobody needs to repeat it within the minute in which a slot that passed is kept: the jobs come, and ask.
    for (const [index, id] of ['b', 'c', 'd'].entries()) expect(await dueAt(id)).toBeLessThan(slots[index] ?? NaN);
    const { fields, moved, reserved } = await run(['unblock']);
    expect(fields).toEqual({ wasBlocked: true }); // at the limiters that it had not come to
    expect(moved).toBe(at === 'onMoving' ? 3 : 0);
    for (const [index, id] of ['b', 'c', 'd'].entries()) {
      const lead = (reserved[index]?.at ?? NaN) - (await dueAt(id));
      expect(lead).toBeGreaterThanOrEqual(0);
      expect(lead).toBeLessThanOrEqual(25);
    }
  },
);

it('a block is at every limiter, and is ended at each, also where only one has it', async () => {
  const { limiters, run } = await open();
  const blocks = async () =>
    Promise.all(Object.values(limiters).map(async (limiter) => (await limiter.inspect(ID)).block));
  await run(BLOCK);
  expect(await blocks()).toEqual(Array(3).fill({ until: UNTIL, reason: 'exam' }));
  expect((await run(['unblock'])).fields).toEqual({ wasBlocked: true });
  expect(await blocks()).toEqual(Array(3).fill(undefined));
  await limiters.background.block(ID, { until: UNTIL, reason: 'only there' });
  expect((await run(['unblock'])).fields).toEqual({ wasBlocked: true });
});

it('nothing of another recipient is canceled or previewed, nor is what is refused in the audit', async () => {
  const { producer, operating, run, wait, audit } = await open();
  await wait('alert', { id: 'before', recipientId: NOBODY }, { id: 'other', recipientId: NOBODY });
  const step: Step = ['cancel', { notification: 'other' }];
  const expected = 'notification: expected the id of a notification of this recipient that waits, found "other"';
  await expect(previewOperation(asking(step), operating)).rejects.toThrow(expected);
  await expect(run(step)).rejects.toThrow(expected);
  expect(await audit.read({ count: 9 })).toEqual([]);
  expect(await producer.cancel({ id: 'other' })).toEqual({ canceled: 1, tooLate: 0 });
});

it.each([
  ['was canceled before', { canceled: 1, tooLate: 0 }],
  ['has alerted a device', { canceled: 0, tooLate: 1 }],
])('a preview says what running it answers of a notification that %s', async (what, answer) => {
  const { operating, run } = await open();
  const step: Step = ['cancel', { notification: 'c' }];
  const [queue] = operating.queues;
  const returnvalue = JSON.stringify({ outcome: 'canceled' });
  if (what === 'has alerted a device') {
    await (await queue?.getJob('c'))?.updateProgress({ devices: { 'apns#0': 'delivered' } });
  } else await operating.connection.hset(queue?.toKey('c') ?? '', { finishedOn: Date.now(), returnvalue }); // as BullMQ does
  const { preview } = await previewOperation(asking(step), operating);
  expect(preview).toMatchObject({ cancels: answer.canceled, tooLate: answer.tooLate });
  expect((await run(step)).fields).toEqual(answer);
});
