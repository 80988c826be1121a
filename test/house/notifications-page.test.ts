import { readFile } from 'node:fs/promises';
import { expect, test } from 'vitest';
import { asDigest } from '../../src/domain/digest.ts';
import { parseNotification, type Notification } from '../../src/domain/notification.ts';
import { pushId } from '../../src/domain/push-id.ts';
import { checkInput, type EnqueueInput } from '../../src/queue/producer.ts';
import type { JournalEntry } from '../../src/sandbox/journal.ts';
import { publishedSchema } from '../support/json-schema.ts';
import { openApns, openFcm, openSandbox, sendPush } from '../support/providers.ts';

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

test('the page has examples for both platforms', () => {
  expect(EXAMPLES.length).toBeGreaterThan(7);
  for (const platform of ['apns', 'fcm', 'apns silent', 'fcm silent', 'apns digest']) {
    expect(EXAMPLES.filter(({ wire }) => platform in wire).length).toBeGreaterThan(0);
  }
});

test.each(EXAMPLES)('%#: what the page shows is valid, and is what the providers get', async ({ document, wire }) => {
  expect((await publishedSchema())(document)).toEqual([]);
  expect(checkInput(document as EnqueueInput)).toMatchObject({ kind: 'added' });
  const parsed = parseNotification(document);
  const notification = parsed.ok ? parsed.notification : ({} as Notification);
  const [how = ''] = Object.keys(wire).map((kind) => kind.split(' ')[1] ?? '');
  const sent = await send(how === 'digest' ? asDigest(notification, 5) : notification, how);
  expect(Object.keys(wire)).toHaveLength(notification.devices.length);
  expect(sent).toEqual(wire);
});

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
async function send(notification: Notification, how: string): Promise<Record<string, unknown>> {
  const sandbox = await openSandbox();
  const [apns, fcm] = [await openApns(sandbox), await openFcm(sandbox, { now: () => NOW_MS })];
  for (const [index, device] of notification.devices.entries()) {
    const push = { notification, device, pushId: pushId(notification.id, index), silent: how === 'silent' };
    expect(await sendPush(device.platform === 'apns' ? apns : fcm, push)).toMatchObject({ meaning: 'accepted' });
  }
  const suffix = how === '' ? '' : ` ${how}`;
  return Object.fromEntries(sandbox.journal.all.map((entry) => [`${entry.platform}${suffix}`, wireOf(entry)]));
}

function wireOf({ platform, pushType, priority, collapseId, expiration, topic, payload }: JournalEntry): unknown {
  if (platform !== 'apns') return payload;
  const headers = {
    'apns-push-type': pushType,
    'apns-priority': priority,
    'apns-collapse-id': collapseId,
    'apns-topic': topic,
    ...(expiration !== undefined && { 'apns-expiration': String(expiration) }),
  };
  return { headers, payload };
}
