import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { runInNewContext } from 'node:vm';
import { expect, test } from 'vitest';
import { loadConfig } from '../../src/config/config.ts';
import { webpushMessage } from '../../src/notification/devices/webpush/payload.ts';
import { makePush } from '../support/push.ts';
import { snippetOf } from '../support/snippet.ts';

const PAGE = 'docs/webpush.md';

test('the command makes a key pair that the worker takes', async () => {
  const { stdout } = await promisify(execFile)('sh', ['-c', await snippetOf(PAGE, 'vapid-keys', 'sh')]);
  const env = Object.fromEntries(
    stdout
      .trim()
      .split('\n')
      .map((line) => line.split('=') as [string, string]),
  );
  expect(Object.keys(env)).toEqual(['WEBPUSH_VAPID_PRIVATE_KEY', 'WEBPUSH_VAPID_PUBLIC_KEY']);
  expect(loadConfig({ ...env, WEBPUSH_SUBJECT: 'mailto:push@example.com' }).providers).toHaveProperty('webpush');
});

/** The page's service worker in place of a browser's; what it shows, opens and counts. */
async function startServiceWorker(endpoint = 'https://fcm.googleapis.com/fcm/send/a') {
  const handlers: Record<string, (event: unknown) => void> = {};
  const shown: unknown[] = [];
  const opened: unknown[] = [];
  const badges: unknown[] = [];
  const closed: unknown[] = [];
  const onScreen = ['thread-77', 'forms', ''].map((tag) => ({ tag, close: () => void closed.push(tag) }));
  const self = {
    addEventListener: (name: string, handler: (event: unknown) => void) => (handlers[name] = handler),
    registration: {
      showNotification: (...all: unknown[]) => void shown.push(all),
      getNotifications: () => Promise.resolve(onScreen),
      pushManager: { getSubscription: () => Promise.resolve(endpoint === '' ? null : { endpoint }) },
    },
    clients: { openWindow: (url: unknown) => void opened.push(url) },
  };
  const navigator = { setAppBadge: (badge: unknown) => void badges.push(badge) };
  runInNewContext(await snippetOf(PAGE, 'service-worker'), { self, navigator });
  const waitUntil = (): void => undefined;
  return {
    /** Resolves when the service worker is done. */
    push: async (message: object) => {
      const json = (): unknown => JSON.parse(JSON.stringify(message));
      let done: unknown;
      handlers['push']?.({ data: { json }, waitUntil: (work: unknown) => (done = work) });
      await done;
    },
    click: (data: unknown, action = '') =>
      handlers['notificationclick']?.({ action, notification: { close: waitUntil, data }, waitUntil }),
    ...{ shown, opened, badges, closed },
  };
}

test('the service worker shows what the worker sends', async () => {
  const worker = await startServiceWorker();
  const [collapseId, imageUrl] = ['thread-77', 'https://example.com/a.jpg'];
  const push = makePush({ platform: 'webpush', badge: 3, data: { url: '/forms' }, collapseId, imageUrl });
  await worker.push(webpushMessage(push.notification, push));
  const shown = { id: push.notification.id, tag: collapseId, silent: false, icon: '/icon-192.png', image: imageUrl };
  expect(worker.shown).toEqual([['Room 12', { ...shown, body: 'Field trip forms are due', data: { url: '/forms' } }]]);
  const silent = makePush({ platform: 'webpush', alert: { body: 'Now' } });
  await worker.push(webpushMessage(silent.notification, { ...silent, silent: true }));
  expect(worker.shown[1]).toMatchObject(['Now', { silent: true, body: undefined }]);
  expect(worker.badges).toEqual([3]);
  worker.click({ url: '/forms' });
  worker.click(undefined);
  expect(worker.opened).toEqual(['/forms', '/']);
});

test.each<[endpoint: string, shown: unknown[]]>([
  ['https://a.example/https://web.push.apple.com/', []],
  ['', []],
  [
    'https://web.push.apple.com/QGv',
    [['A message was taken back', { tag: 'pushpacer-retract', silent: true }]], // Safari counts what shows nothing
  ],
])('the service worker takes away what is taken back: with the subscription "%s"', async (endpoint, shown) => {
  const worker = await startServiceWorker(endpoint);
  const pushpacer = { retract: ['msg-1', 'msg-2'], tags: ['thread-77', 'gone'] };
  const fields = { platform: 'webpush', pushType: 'background', alert: undefined } as const;
  const push = makePush({ ...fields, data: { pushpacer } });
  await worker.push(webpushMessage(push.notification, push));
  expect([worker.shown, worker.closed, worker.badges]).toEqual([shown, ['thread-77'], []]);
  const withBadge = makePush({ ...fields, badge: 0, data: { pushpacer: { ...pushpacer, badge: 0 } } });
  await worker.push(webpushMessage(withBadge.notification, withBadge));
  expect([worker.shown, worker.badges]).toEqual([[...shown, ...shown], [0]]);
});

test('the service worker shows a declarative push as any other', async () => {
  const worker = await startServiceWorker();
  const push = makePush({ platform: 'webpush', badge: 3, webpush: { icon: '/marin.png' } });
  await worker.push(webpushMessage(push.notification, push));
  const webpush = { icon: '/marin.png', declarative: true, navigate: 'https://school.example.com/forms' };
  await worker.push(webpushMessage({ ...push.notification, webpush }, push));
  const [first, second] = worker.shown as [string, Record<string, unknown>][];
  // `showNotification` reads the options that it knows, and no others.
  const { web_push: mark, notification, app_badge: count, ...options } = second?.[1] ?? {};
  expect([second?.[0], options]).toEqual(first);
  expect([mark, count]).toEqual([8030, 3]);
  expect(notification).toMatchObject({ title: 'Room 12', navigate: webpush.navigate });
  expect(worker.badges).toEqual([3, 3]);
});

test('the service worker shows what is for browsers only, and a button has its own page', async () => {
  const worker = await startServiceWorker();
  const data = { url: '/threads/77', urls: { reply: '/threads/77/reply' } };
  const actions = [{ action: 'reply', title: 'Reply', icon: '/reply.png' }];
  const lasting = { icon: '/marin.png', badge: '/badge.png', actions };
  const webpush = { ...lasting, renotify: true, requireInteraction: true };
  const push = makePush({ platform: 'webpush', data, webpush, badge: 3 });
  await worker.push(webpushMessage(push.notification, push));
  await worker.push(webpushMessage(push.notification, { ...push, silent: true }));
  expect(worker.shown).toMatchObject([
    ['Room 12', { ...webpush, data }],
    ['Room 12', { ...lasting, silent: true }],
  ]);
  for (const loud of ['renotify', 'requireInteraction']) expect(worker.shown[1]).not.toHaveProperty([1, loud]);
  worker.click(data, 'reply');
  worker.click(data);
  expect(worker.opened).toEqual(['/threads/77/reply', '/threads/77']);
});
