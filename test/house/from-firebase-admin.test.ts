import { readFile } from 'node:fs/promises';
import { Agent, createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:tls';
import { text } from 'node:stream/consumers';
import { deleteApp, initializeApp } from 'firebase-admin/app';
import { getMessaging, type Message, type Messaging } from 'firebase-admin/messaging';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { parseNotification, type Notification } from '../../src/notification/notification.ts';
import { FCM_ANSWERS } from '../../src/providers/fcm/answers.ts';
import { fcmMessage } from '../../src/notification/devices/fcm/payload.ts';
import { makeAuthority, signCertificate } from '../../sandbox/loopback/certificates.ts';

const page = await readFile('docs/from-firebase-admin.md', 'utf8');
/** When the examples are enqueued. */
const NOW_MS = Date.parse('2026-11-21T17:00:00Z');

interface Answer {
  readonly status: number;
  readonly body: object;
}
const ACCEPTED: Answer = { status: 200, body: { name: 'projects/school-1/messages/1' } };

/** What firebase-admin sends to Google, which a server on this machine answers. */
let requests: { message: object }[];
let answer: Answer;
let messaging: Messaging;

beforeEach(async () => {
  [requests, answer] = [[], ACCEPTED];
  const authority = await makeAuthority(Date.now());
  const { cert, key } = await signCertificate(authority, ['fcm.googleapis.com'], Date.now());
  const server = createServer({ cert, key }, (request, response) => {
    void text(request).then((body) => {
      // Google reads both names.
      const named = body
        .replaceAll('"fcmOptions"', '"fcm_options"')
        .replaceAll('"analyticsLabel"', '"analytics_label"');
      requests.push(JSON.parse(named) as { message: object });
      response.writeHead(answer.status, { 'content-type': 'application/json' }).end(JSON.stringify(answer.body));
    });
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  const { port } = server.address() as AddressInfo;
  const httpAgent = new Agent();
  httpAgent.createConnection = () =>
    connect({ host: '127.0.0.1', port, ca: authority.cert, servername: 'fcm.googleapis.com' });
  const credential = { getAccessToken: () => Promise.resolve({ access_token: 'a-token', expires_in: 3_600 }) };
  const app = initializeApp({ credential, projectId: 'school-1', httpAgent }, `app-${port}`);
  messaging = getMessaging(app);
  // eslint-disable-next-line @typescript-eslint/no-deprecated -- sendEach takes no agent otherwise
  messaging.enableLegacyHttpTransport();
  onTestFinished(async () => {
    httpAgent.destroy();
    await deleteApp(app);
    await new Promise((done) => server.close(done));
  });
});

type Target = { readonly token: string } | { readonly fid: string };
type Example = readonly [theirs: Message & Target, ours: unknown];
const blocks = (language: string): unknown[] =>
  [...page.matchAll(new RegExp(`\`\`\`json ${language}\n([^]*?)\`\`\``, 'g'))].map(
    ([, json = '']) => JSON.parse(json) as unknown,
  );
const ours = blocks('notification');
const EXAMPLES = blocks('firebase-admin').map((message, index) => [message, ours[index]] as Example);

/** What we send to each of its devices. */
function sentFor(input: unknown): object[] {
  const parsed = parseNotification(input);
  if (!parsed.ok) throw new Error(JSON.stringify(parsed.faults));
  const { notification } = parsed as { notification: Notification };
  return notification.devices.map((device) =>
    fcmMessage(notification, {
      device: device.platform === 'fcm' ? device : {},
      ...{ pushId: 'push-1', silent: false, nowMs: NOW_MS },
    }),
  );
}

test.each(EXAMPLES)('example %#: FCM gets all of it, by `send` and by a notification', async (theirs, input) => {
  await messaging.send(theirs);
  expect(sentFor(input)).toEqual([
    expect.objectContaining('fid' in theirs ? { fid: theirs.fid } : { token: theirs.token }),
  ]);
  expect(sentFor(input)[0]).toMatchObject(requests[0]?.message ?? { nothing: 'was sent' });
});

test('the messages of `sendEachForMulticast` are those to the devices of one notification', async () => {
  const [, calls = ''] = /```js\n([^]*?)```/.exec(page) ?? [];
  const [before = '', after = ''] = calls.split('// after');
  const run = async (code: string, names: object): Promise<unknown> => {
    const program = `export default async ({ ${Object.keys(names).join(', ')} }) => { ${code} }`;
    const module = (await import(`data:text/javascript,${encodeURIComponent(program)}`)) as {
      default: (all: object) => unknown;
    };
    return module.default(names);
  };
  const enqueued: object[] = [];
  await run(before, { getMessaging: () => messaging });
  await run(after, { producer: { enqueue: (input: object) => void enqueued.push({ id: 'msg-1', ...input }) } });
  const sent = sentFor(enqueued[0]);
  expect(sent).toHaveLength(2);
  const byToken = (a: object, b: object): number => JSON.stringify(a).localeCompare(JSON.stringify(b));
  expect(sent).toMatchObject(requests.map(({ message }) => message).sort(byToken));
});

/** `android.notification.tag`, and each object above. */
function pathsOf(value: unknown, above = ''): string[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
  return Object.entries(value).flatMap(([name, each]) => {
    const path = above === '' ? name : `${above}.${name}`;
    return [path, ...pathsOf(each, path)];
  });
}

const FIELDS = [...page.matchAll(/^\| `([A-Za-z.-]+)` +\| ([^|]*`[^|]*)\|$/gm)].map(([, field = '', here = '']) => [
  field,
  /`([^`]+)`/.exec(here)?.[1] ?? '',
]);

test('the table of fields is as long as it looks', () => expect(FIELDS.length).toBeGreaterThan(35));

test.each(FIELDS)('of the table of fields, %s is in an example, beside %s', (field, here) => {
  const found = EXAMPLES.filter(([theirs]) => pathsOf(theirs).includes(field));
  expect(found.some(([, input]) => pathsOf(input).includes(here))).toBe(true);
});

const ERRORS = [...page.matchAll(/^\| `(messaging\/[a-z-]+)` +\| `([A-Z_]+)` +\| `([a-z-]+)`/gm)].map((row) =>
  row.slice(1, 4),
);

test('the table of errors is as long as it looks', () => expect(ERRORS).toHaveLength(8));

test.each(ERRORS)('of the table of errors, %s is %s, and means %s', async (theirs = '', errorCode = '', meaning) => {
  const { words } = FCM_ANSWERS;
  const details = [{ '@type': 'type.googleapis.com/google.firebase.fcm.v1.FcmError', errorCode }];
  answer = { status: 400, body: { error: { status: 'INVALID_ARGUMENT', message: 'no', details } } };
  const target = theirs.includes('installation') ? { fid: 'cQx3v8fZTn6tE1mKp0aB9d' } : { token: 'f1:APA91b' };
  await expect(messaging.send(target)).rejects.toMatchObject({ code: theirs });
  expect(words[errorCode as keyof typeof words].meaning).toBe(meaning);
});
