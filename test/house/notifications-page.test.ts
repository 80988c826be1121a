import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { asDigest } from '../../src/domain/notification-schema.ts';
import { parseNotification, PLATFORMS, type Notification } from '../../src/domain/notification.ts';
import { pushId } from '../../src/domain/device.ts';
import { checkInput, type EnqueueInput } from '../../src/queue/producer.ts';
import type { JournalEntry } from '../../sandbox/journal.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { publishedSchema } from '../support/json-schema.ts';
import { openApns, openFcm, openSandbox, openWebpush, sendPush } from '../support/providers.ts';

/** When the page's example that expires is sent. */
const NOW_MS = Date.parse('2026-11-21T17:00:00Z');

interface Example {
  readonly document: unknown;
  /** What the page says is sent: `apns`, `fcm silent` → headers and payload, or the message. */
  readonly wire: Record<string, unknown>;
}

const PAGE = await readFile('docs/notifications.md', 'utf8');
const EXAMPLES = examplesOf(PAGE);

function examplesOf(page: string): Example[] {
  const examples: Example[] = [];
  for (const [, kind = '', text = ''] of page.matchAll(/^```json ([a-z ]+)\n([^]*?)^```$/gm)) {
    const json: unknown = JSON.parse(text);
    const last = examples.at(-1);
    if (kind === 'notification') examples.push({ document: json, wire: {} });
    else if (last !== undefined) last.wire[kind] = json;
  }
  return examples;
}

test('the page has examples for every platform', () => {
  expect(EXAMPLES.length).toBeGreaterThan(7);
  for (const platform of PLATFORMS) {
    expect(EXAMPLES.filter(({ wire }) => platform in wire).length).toBeGreaterThan(0);
    expect(EXAMPLES.filter(({ wire }) => `${platform} silent` in wire).length).toBeGreaterThan(0);
  }
});

test.each(EXAMPLES)('%#: what the page shows is valid, and is what the providers get', async ({ document, wire }) => {
  expect((await publishedSchema())(document)).toEqual([]);
  expect(checkInput(document as EnqueueInput)).toMatchObject({ kind: 'added' });
  const sandbox = await openSandbox();
  const notification = withBrowser(document as EnqueueInput, sandbox);
  const [how = ''] = Object.keys(wire).map((kind) => kind.split(' ')[1] ?? '');
  const sent = await send(how === 'digest' ? asDigest(notification, 5) : notification, how, sandbox);
  expect(Object.keys(wire)).toHaveLength(notification.devices.length);
  expect(sent).toEqual(wire);
});

/** The example for a browser too, which it leaves out to be short. Without it where no browser may get the notification. */
function withBrowser(document: EnqueueInput, { webpush }: Sandbox): Notification {
  const browser = { platform: 'webpush', ...webpush.subscription('ana') } as const;
  const parsed = [[...document.devices, browser], document.devices]
    .map((devices) => parseNotification({ ...document, devices }))
    .find(({ ok }) => ok);
  return parsed?.ok ? parsed.notification : ({} as Notification);
}

test('every field of the schema is on the page', async () => {
  const schema = JSON.parse(await readFile('docs/notification.schema.json', 'utf8')) as {
    properties: Record<string, { properties?: object }>;
  };
  const fields = Object.entries(schema.properties).flatMap(([field, { properties = {} }]) => [
    `"${field}"`,
    ...Object.keys(properties).map((inner) => `"${inner}"`),
  ]);
  const shown = EXAMPLES.map(({ document }) => JSON.stringify(document)).join();
  expect(fields.filter((field) => !shown.includes(field))).toEqual([]);
});

test('the faults on the page are what a producer is told', () => {
  const good = { recipientId: 'r', devices: [{ platform: 'fcm', token: 't' }], alert: { title: 'a' } };
  const result = checkInput({ ...good, apns: { treadId: 'a' }, channelId: 'b' } as unknown as EnqueueInput);
  const faults = result.kind === 'invalid' ? result.faults : [];
  expect(faults).toHaveLength(2);
  for (const { path, expected, found } of faults)
    expect(PAGE).toContain(`\n${path}: expected ${expected}, found ${found}\n`);
});

/** Sends an example to all its devices, and answers what arrived, in the page's form. */
async function send(notification: Notification, how: string, sandbox: Sandbox): Promise<Record<string, unknown>> {
  const startedAt = Date.now();
  const providers = {
    apns: await openApns(sandbox),
    fcm: await openFcm(sandbox, { now: () => NOW_MS }),
    webpush: await openWebpush(sandbox, { now: () => startedAt }),
  };
  for (const [index, device] of notification.devices.entries()) {
    const push = { notification, device, pushId: pushId(notification.id, index), silent: how === 'silent' };
    // A VAPID token must be new by the real clock, so a browser gets the example as if it was enqueued now.
    if (device.platform === 'webpush' && notification.expiresAt !== undefined)
      push.notification = { ...notification, expiresAt: notification.expiresAt + startedAt - NOW_MS };
    expect(await sendPush(providers[device.platform], push)).toMatchObject({ meaning: 'accepted' });
  }
  const suffix = how === '' ? '' : ` ${how}`;
  return Object.fromEntries(sandbox.journal.all.map((entry) => [`${entry.platform}${suffix}`, wireOf(entry)]));
}

function wireOf(entry: JournalEntry): unknown {
  const { platform, at, pushType, priority, collapseId, expiration, topic, payload } = entry;
  if (platform === 'fcm') return payload;
  if (platform === 'webpush') {
    const ttl = String(Math.round((expiration ?? 0) - at / 1_000));
    return { headers: { ttl, urgency: priority, topic: collapseId }, message: payload };
  }
  const headers = {
    'apns-push-type': pushType,
    'apns-priority': priority,
    'apns-collapse-id': collapseId,
    'apns-topic': topic,
    ...(expiration !== undefined && { 'apns-expiration': String(expiration) }),
  };
  return { headers, payload };
}
