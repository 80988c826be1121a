import { createServer } from 'node:http';
import { expect, test, vi } from 'vitest';
import type { Page } from 'playwright-core';
import { webpushMessage } from '../../../src/notification/devices/webpush/payload.ts';
import { openPage } from '../../support/browser.ts';
import { urlOf } from '../../support/listen.ts';
import { makePush, type PushFields } from '../../support/push.ts';
import { snippetOf } from '../../support/snippet.ts';

/** A website with the service worker of docs/webpush.md, in a real browser, to which pushes are handed without a push service. */
async function openWebsite() {
  const code = await snippetOf('docs/webpush.md', 'service-worker');
  const server = createServer(({ url }, response) => {
    const isCode = url === '/service-worker.js';
    response.setHeader('content-type', isCode ? 'text/javascript' : 'text/html');
    response.end(isCode ? code : '<!doctype html><title>School</title>');
  });
  const origin = await urlOf(server);
  const { page, faults } = await openPage({ permissions: ['notifications'] });
  await page.goto(origin);
  await page.evaluate(
    `navigator.serviceWorker.register('/service-worker.js').then(() => navigator.serviceWorker.ready)`,
  );
  const session = await page.context().newCDPSession(page);
  const registered = new Promise<string>((resolve) => {
    session.on('ServiceWorker.workerRegistrationUpdated', ({ registrations: [first] }) => {
      if (first !== undefined) resolve(first.registrationId);
    });
  });
  await session.send('ServiceWorker.enable');
  const registrationId = await registered;
  const push = async (fields: PushFields<'webpush'>): Promise<void> => {
    const made = makePush({ platform: 'webpush', ...fields });
    const data = JSON.stringify(webpushMessage(made.notification, made));
    await session.send('ServiceWorker.deliverPushMessage', { origin, registrationId, data });
  };
  return { page, faults, push };
}

/** The tags and titles of what the browser shows. */
function shownIn(page: Page): Promise<unknown> {
  return page.evaluate(`navigator.serviceWorker.ready
    .then((registration) => registration.getNotifications())
    .then((all) => all.map(({ tag, title }) => [tag, title]).toSorted())`);
}

test('an alert is shown in a real browser, and taken away again by the retraction', async () => {
  const { page, faults, push } = await openWebsite();
  const shows = (...all: string[][]) => vi.waitFor(async () => expect(await shownIn(page)).toEqual(all), 10_000);
  await push({ alert: { title: 'Wrong class' }, collapseId: 'trip-77', badge: 3 });
  await shows(['trip-77', 'Wrong class']);
  await push({ alert: { body: 'Forms' }, collapseId: 'forms' });
  await shows(['forms', 'Forms'], ['trip-77', 'Wrong class']);
  const pushpacer = { retract: ['msg-1'], tags: ['trip-77'], badge: 2 };
  await push({ pushType: 'background', alert: undefined, badge: 2, data: { pushpacer } });
  await shows(['forms', 'Forms']);
  expect(faults).toEqual([]);
});
