import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { makeBurst } from '../../bench/alternatives/burst.ts';
import { figuresOf } from '../../bench/alternatives/figures.ts';
import { COLOURS, renderPicture, stackDots } from '../../bench/alternatives/picture.ts';
import { main } from '../../bench/bench.ts';
import { parseNotification } from '../../src/domain/notification.ts';
import { runMain } from '../support/command.ts';
import { expectSelfContained, expectWellFormed } from '../support/markup.ts';

const burst = makeBurst(true);
const ENQUEUED_AT = 1_000_000;

/** The busy recipient's alerts at these instants, in this order of enqueuing, and the others' all after 40 ms. */
function runOf(busyMs: readonly number[]) {
  const arrival = (id: string, recipientId: string, afterMs: number) => ({
    recipientId,
    notificationId: id,
    device: `device of ${recipientId}`,
    at: ENQUEUED_AT + afterMs,
  });
  return {
    alternative: 'plain' as const,
    enqueuedAt: ENQUEUED_AT,
    passes: 48,
    arrivals: [
      ...busyMs.map((ms, index) => arrival(burst.busy[index]?.id ?? '', burst.busy[index]?.recipientId ?? '', ms)),
      ...burst.others.map(({ id, recipientId }, index) => arrival(id, recipientId, 40 + index)),
    ],
  };
}

test('the burst consists of notifications: many to one recipient, and one each to others', () => {
  const whole = makeBurst(false);
  for (const push of [...whole.busy, ...whole.others]) expect(parseNotification(push)).toMatchObject({ ok: true });
  expect(whole.busy).toHaveLength(59);
  expect(new Set(whole.busy.map(({ recipientId }) => recipientId)).size).toBe(1);
  expect(new Set(whole.others.map(({ recipientId }) => recipientId)).size).toBe(140);
  expect(whole.recipientOf.size).toBe(141);
  expect(new Set([...whole.busy, ...whole.others].map(({ id }) => id)).size).toBe(199);
});

test('the limits, the order, the waits and the losses are counted from what arrived', () => {
  const paced = burst.busy.map((_, index) => Math.floor(index / 10) * 3_000 + (index % 10) * 250);
  expect(figuresOf(runOf(paced), burst)).toEqual({
    mostInGap: 1,
    mostInWindow: 10,
    gapViolations: 0,
    windowViolations: 0,
    passesPerJob: 2,
    busyMs: 3_250,
    busyOverIdeal: 1,
    outOfOrder: 0,
    othersMedianMs: 46,
    othersWorstMs: 51,
    duplicates: 0,
    lost: 0,
  });
  const [first = 0, second = 0, ...rest] = burst.busy.map((_, index) => index * 10);
  expect(figuresOf(runOf([second, first, ...rest.slice(0, -1)]), burst)).toMatchObject({
    mostInGap: 11,
    gapViolations: 10,
    windowViolations: 1,
    outOfOrder: 1,
    lost: 1,
  });
});

test('dots that would touch stand one above the other', () => {
  const levels = stackDots([0, 1, 2, 100, 104, 200], (ms) => ms).map(({ level }) => level);
  expect(levels).toEqual([0, 1, 2, 0, 1, 0]);
});

test.each(['light', 'dark'] as const)('the picture for %s pages has a dot for each alert and loads nothing', (kind) => {
  const picture = renderPicture({ withoutMs: [40, 41, 42], withMs: [40, 290, 540] }, COLOURS[kind]);
  expectWellFormed(picture);
  expectSelfContained(picture);
  expect(picture.match(/<circle /g)).toHaveLength(6);
  expect(picture).toContain(COLOURS[kind].text);
});

test.each([
  [['limiter', '--svg', 'x.svg'], '--svg: expected the suite alternatives, found limiter'],
  [['--svg', 'x.svg'], '--svg: expected the suite alternatives, found every suite'],
  [['alternatives', '--svg', 'x.png'], '--svg: expected a name that ends with .svg, found "x.png"'],
  [['alternatives', '--svg', join(tmpdir(), 'missing', 'x.svg')], 'the folder'],
])('refuses %j before any work', async (args, message) => {
  const { code, stdout, stderr } = await runMain(main, args);
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' });
  expect(stderr).toContain(`error: ${message.startsWith('--svg') ? message : '--svg: expected a file'}`);
  expect(stderr).toContain(message);
});
