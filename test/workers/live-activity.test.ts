import { expect, test, vi } from 'vitest';
import { makeDevice, makeNotification } from '../support/push.ts';
import { openReplicaBench } from '../support/replica.ts';
import { ends, waits, WITHIN } from '../support/waiting.ts';

const device = makeDevice('apns');

function update(goals: number, recipientId = 'teacher-42') {
  return makeNotification({
    recipientId,
    devices: [device],
    pushType: 'liveactivity',
    alert: undefined,
    liveActivity: { event: 'update', contentState: { goals } },
    collapseId: 'match-12',
    onThrottle: 'latest',
  });
}

test('of ten updates at once, the first one and the last one are sent', async () => {
  const bench = await openReplicaBench();
  await bench.startHere({ LIMIT_LIVE_ACTIVITY_RULES: '1/2s' });
  const updates = Array.from({ length: 10 }, (_, goals) => update(goals));
  await bench.producer.enqueueMany(updates);
  await ends(bench, updates[9]?.id ?? '', 'delivered');
  for (const { id } of updates.slice(1, 9)) await ends(bench, id, 'superseded');
  const sent = bench.sandbox.journal.accepted;
  const aps = sent.map(({ payload }) => (payload as { aps: Record<string, unknown> }).aps);
  expect(aps.map((each) => each['content-state'])).toEqual([{ goals: 0 }, { goals: 9 }]);
  expect((sent[1]?.at ?? 0) - (sent[0]?.at ?? 0)).toBeGreaterThan(1_900);
  expect(Number(aps[1]?.['timestamp'])).toBeGreaterThan(Number(aps[0]?.['timestamp']));
});

test('one that waits is canceled in the limits of Live Activities', async () => {
  const bench = await openReplicaBench();
  await bench.startHere({ LIMIT_LIVE_ACTIVITY_RULES: '1/1h' });
  const [first, second] = [update(1, 'teacher-43'), update(2, 'teacher-43')];
  await bench.producer.enqueue(first);
  await ends(bench, first.id, 'delivered');
  await bench.producer.enqueue(second);
  await waits(bench, second.id);
  expect(await bench.producer.cancel({ id: second.id })).toEqual({ canceled: 1, tooLate: 0 });
  await ends(bench, second.id, 'canceled');
  await vi.waitFor(() => expect(bench.sandbox.journal.accepted).toHaveLength(1), WITHIN);
});
