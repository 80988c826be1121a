import { describe, expect, test } from 'vitest';
import { openApns, openSandbox, sendPush } from '../support/providers.ts';
import { makePush, type PushFields } from '../support/push.ts';

const UPDATE = { event: 'update', contentState: { score: '2 : 1' } } as const;
const START = {
  event: 'start',
  contentState: { score: '0 : 0' },
  attributesType: 'MatchAttributes',
  attributes: { home: '7b', away: '7c' },
} as const;
const GOAL = { title: 'Goal', body: '2 : 1' };

/** What APNs received of a push for a Live Activity. */
async function received(fields: PushFields = {}) {
  const sandbox = await openSandbox();
  const push = makePush({ pushType: 'liveactivity', alert: undefined, liveActivity: UPDATE, ...fields });
  const reply = await sendPush(await openApns(sandbox), push);
  expect(reply).toMatchObject({ meaning: 'accepted' });
  const [entry] = sandbox.journal.all;
  expect(entry?.ignored).toBeUndefined();
  return entry;
}

/** Its `aps`. */
async function aps(fields: PushFields = {}): Promise<unknown> {
  return ((await received(fields))?.payload as { aps?: unknown } | undefined)?.aps;
}

test('an update has its push type, its topic and its state, and the time of the send', async () => {
  const before = Math.floor(Date.now() / 1_000);
  const entry = await received({ collapseId: 'match-12' });
  const after = Math.floor(Date.now() / 1_000);
  expect(entry).toMatchObject({
    pushType: 'liveactivity',
    topic: 'dev.pushpacer.sandbox.push-type.liveactivity',
    priority: '5',
    collapseId: 'match-12',
  });
  const timestamp = expect.any(Number) as number;
  expect(entry?.payload).toEqual({ aps: { timestamp, event: 'update', 'content-state': { score: '2 : 1' } } });
  const sentAt = (entry?.payload as { aps: { timestamp: number } }).aps.timestamp;
  expect(sentAt).toBeGreaterThanOrEqual(before);
  expect(sentAt).toBeLessThanOrEqual(after);
});

test('every field is where Apple wants it, and instants are whole seconds', async () => {
  const liveActivity = {
    ...START,
    timestamp: '2026-11-21T17:00:00.900Z',
    staleDate: 1_795_281_300_999,
    dismissalDate: '2026-11-21T20:00:00+01:00',
    relevanceScore: 75,
  };
  expect(await aps({ liveActivity, alert: { title: 'Match' } })).toEqual({
    timestamp: 1_795_280_400,
    event: 'start',
    'content-state': { score: '0 : 0' },
    'stale-date': 1_795_281_300,
    'dismissal-date': 1_795_287_600,
    'relevance-score': 75,
    'attributes-type': 'MatchAttributes',
    attributes: { home: '7b', away: '7c' },
    alert: { title: 'Match' },
  });
});

test('in its alert a key lies in the place of the text, and the sound beside it', async () => {
  const alert = { title: 'Goal', titleLocKey: 'GOAL', titleLocArgs: ['7b'], bodyLocKey: 'SCORE', body: '2 : 1' };
  expect(await aps({ alert, sound: 'goal.caf' })).toMatchObject({
    alert: { title: { 'loc-key': 'GOAL', 'loc-args': ['7b'] }, body: { 'loc-key': 'SCORE' }, sound: 'goal.caf' },
  });
});

describe('the priority', () => {
  test.each<[string, PushFields, string]>([
    ['without an alert', {}, '5'],
    ['priority high', { priority: 'high' }, '10'],
    ['with an alert', { alert: GOAL }, '10'],
    ['apns.priority 10', { apns: { priority: 10 } }, '10'],
    ['apns.priority 5', { alert: GOAL, priority: 'high', apns: { priority: 5 } }, '5'],
    ['silent', { alert: GOAL, priority: 'high', silent: true }, '5'],
  ])('%s', async (_what, fields, expected) => {
    expect((await received(fields))?.priority).toBe(expected);
  });
});

test('a silent one is the state without the alert, whatever was merged', async () => {
  const apns = { payload: { aps: { 'relevance-score': 3 } } };
  const shown = await aps({ alert: GOAL, sound: 'goal.caf', silent: true, apns });
  expect(shown).toMatchObject({ 'content-state': { score: '2 : 1' }, 'relevance-score': 3 });
  expect(shown).not.toHaveProperty('alert');
  expect(shown).not.toHaveProperty('interruption-level');
});

test.each([
  ['dev.pushpacer.sandbox.clip', 'dev.pushpacer.sandbox.clip.push-type.liveactivity'],
  ['dev.pushpacer.sandbox.push-type.liveactivity', 'dev.pushpacer.sandbox.push-type.liveactivity'],
])('the topic %s becomes %s', async (topic, expected) => {
  expect((await received({ apns: { topic } }))?.topic).toBe(expected);
});
