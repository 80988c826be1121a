import { serveStatic } from '@hono/node-server/serve-static';
import { Hono } from 'hono';
import { isObject, valueAt } from '../../src/domain/json.ts';
import { devicesIn } from '../../src/notification/device.ts';
import { notice } from '../layout.ts';
import type { ConsoleParts, Page } from '../parts.ts';

export const QUEUES_PATH = '/queues';

/**
 * bull-board at `/queues`, which shows BullMQ's own view of the jobs. Read-only, without texts and tokens. Its packages are
 * optional: if they are not installed, the page says so.
 */
export const queuesPage: Page = (app, parts) => {
  let opening: Promise<Hono | undefined> | undefined;
  app.all(`${QUEUES_PATH}/*`, async (c) => {
    if (c.req.method !== 'GET' && c.req.method !== 'HEAD') return c.text('bull-board is read-only here\n', 405);
    opening ??= openBoard(parts).catch((error: unknown) => {
      opening = undefined;
      throw error;
    });
    const board = await opening;
    if (board === undefined) return notice(c, { title: 'bull-board is not installed', advice: INSTALL });
    return board.fetch(c.req.raw, c.env);
  });
  app.get(QUEUES_PATH, (c) => c.redirect(`${QUEUES_PATH}/`));
};

/** Whether the packages of bull-board are installed. Does not load them. */
export function isBoardInstalled(): boolean {
  try {
    return ['@bull-board/api', '@bull-board/hono'].every((name) => import.meta.resolve(name) !== '');
  } catch {
    return false;
  }
}

const INSTALL = 'Install it beside pushpacer and start the console again: npm install @bull-board/api @bull-board/hono';

async function openBoard({ shards, showTexts }: ConsoleParts): Promise<Hono | undefined> {
  const found = await load();
  if (found === undefined) return undefined;
  const { createBullBoard, BullMQAdapter, HonoAdapter } = found;
  const opened = await shards.open();
  const queues = opened
    .flatMap(({ queue, deadQueue }) => [queue, deadQueue])
    .map((queue) => {
      const adapter = new BullMQAdapter(queue, {
        readOnlyMode: true,
        ...(opened.length > 1 && { prefix: `${queue.opts.prefix ?? ''} ` }),
      });
      adapter.setFormatter('data', (data: unknown) => shownOf(data, showTexts));
      return adapter;
    });
  const server = new HonoAdapter(serveStatic);
  createBullBoard({ queues, serverAdapter: server, options: { uiConfig: { boardTitle: 'pushpacer' } } });
  server.setBasePath(QUEUES_PATH);
  const board = new Hono();
  board.route(QUEUES_PATH, server.registerPlugin());
  return board;
}

/** Loads bull-board; undefined if one of its packages is not installed. */
async function load() {
  try {
    const [{ createBullBoard }, { BullMQAdapter }, { HonoAdapter }] = await Promise.all([
      import('@bull-board/api'),
      import('@bull-board/api/bullMQAdapter'),
      import('@bull-board/hono'),
    ]);
    return { createBullBoard, BullMQAdapter, HonoAdapter };
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_MODULE_NOT_FOUND') return undefined;
    throw error;
  }
}

const IDS = ['id', 'recipientId', 'category', 'cancellationKey', 'collapseId', 'priority', 'pushType'];
const TIMES = ['sendAfter', 'expiresAt', 'onThrottle', 'onQuiet'];
const TEXTS = ['alert', 'data', 'digest'];

/** The data of a notification or a dead letter without tokens, and without texts unless these may be shown. */
function shownOf(data: unknown, showTexts: boolean): unknown {
  if (!isObject(data)) return '(not shown)';
  if ('notification' in data) {
    const { reason, message, attempts, deadAt, generation, delivered } = data;
    const notification = shownOf(data['notification'], showTexts);
    return { reason, message, attempts, deadAt, generation, delivered, notification };
  }
  const names = [...IDS, ...TIMES, ...(showTexts ? TEXTS : [])];
  const devices = devicesIn(data) ?? [];
  return {
    ...Object.fromEntries(names.flatMap((name) => (data[name] === undefined ? [] : [[name, data[name]]]))),
    devices: devices.map((device: unknown, index) => `${String(valueAt(device, 'platform')).slice(0, 16)}#${index}`),
  };
}
