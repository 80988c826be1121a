import { expect, it } from 'vitest';
import { tokenOf } from '../../src/notification/device.ts';
import { lateDevices, planWorkload, refOf } from '../../chaos/workload.ts';
import { parseNotification } from '../../src/notification/notification.ts';

const options = {
  seed: 4,
  seconds: 20,
  notifications: 2_000,
  marker: '0123456789ab',
  pushService: 'https://127.0.0.1:8443',
};
const workload = planWorkload(options);
const items = workload.bursts.flatMap((burst) => burst.items);
const inputs = [...new Map(items.map(({ input }) => [input.id, input])).values()];

it('is the same for the same seed, and another for another seed', () => {
  expect(planWorkload(options)).toEqual(workload);
  expect(planWorkload({ ...options, seed: 5 })).not.toEqual(workload);
});

it('has as many notifications as were asked for, a few of them twice and a few malformed', () => {
  expect(inputs.length + workload.malformed.length).toBe(2_000);
  expect(items.length).toBeGreaterThan(inputs.length);
  expect(workload.malformed.length).toBeGreaterThan(0);
});

it('is enqueued in order, before the last faults', () => {
  const instants = workload.bursts.map(({ atMs }) => atMs);
  expect(instants).toEqual(instants.toSorted((a, b) => a - b));
  expect(instants.at(-1)).toBeLessThanOrEqual(14_000);
});

it('has notifications of every kind, and all of them are in order', () => {
  const faults = inputs.flatMap((input) => {
    const parsed = parseNotification(input);
    return parsed.ok ? [] : parsed.faults;
  });
  expect(faults).toEqual([]);
  const platforms = inputs.map(({ devices }) => [...new Set(devices.map(({ platform }) => platform))].sort().join());
  expect(new Set(platforms)).toEqual(
    new Set(['apns', 'fcm', 'webpush', 'apns,fcm', 'apns,webpush', 'fcm,webpush', 'apns,fcm,webpush']),
  );
  for (const field of ['category', 'priority', 'collapseId', 'onThrottle', 'pushType'] as const) {
    expect(inputs.some((input) => field in input)).toBe(true);
  }
  expect(items.some(({ expiresInMs }) => expiresInMs !== undefined)).toBe(true);
  expect(workload.spoilt.map(({ how }) => how)).toEqual(expect.arrayContaining(['gone', 'badToken']));
});

it('marks every token and every text, and knows a notification by what an app gets', () => {
  for (const { id, devices, alert, data: given } of inputs) {
    const data = given as Readonly<Record<string, string>>;
    const shown = alert === undefined ? [] : [alert.title, alert.body];
    const texts = [...devices.map(tokenOf), ...shown, ...Object.values(data)];
    expect(texts.filter((text) => text?.includes(options.marker) !== true)).toEqual([]);
    expect(refOf(data)).toBe(id);
  }
  expect(refOf({})).toBe('');
});

it('knows thousands of devices that are still asked for near the end, each once', () => {
  const { bursts } = planWorkload({ ...options, notifications: 20_000 });
  const devices = lateDevices({ bursts });
  expect(devices.length).toBeGreaterThan(1_000);
  expect(new Set(devices.map(tokenOf)).size).toBe(devices.length);
  const last = bursts.at(-1)?.items[0]?.input.devices ?? [];
  expect(devices).toEqual(expect.arrayContaining(last));
});
