import { readFileSync } from 'node:fs';
import { Hono, type Context, type MiddlewareHandler } from 'hono';
import { html } from 'hono/html';
import { HTTPException } from 'hono/http-exception';
import { NONCE, secureHeaders } from 'hono/secure-headers';
import { createShares } from '../api/access.ts';
import { InputError } from '../src/domain/faults.ts';
import { NewerFormatError } from '../src/domain/format.ts';
import { RedisAwayError } from '../src/redis/connection.ts';
import { LimiterUnavailableError } from '../src/redis/deadline.ts';
import { asBrowsersAsk, createLoginForms } from './forms.ts';
import { notice, page } from './layout.ts';
import { auditPage } from './pages/audit.ts';
import { deadLetterPages } from './pages/dead-letters.ts';
import { notificationPage } from './pages/notification.ts';
import { nowPage } from './pages/now.ts';
import { recipientPages } from './pages/recipient.ts';
import { searchPages } from './pages/search.ts';
import { whatIfPage } from './pages/what-if.ts';
import type { ConsoleApp, ConsoleParts, Page } from './parts.ts';
import type { ConsoleEnv, Sessions } from './session.ts';

const PAGES: readonly Page[] = [
  ...[nowPage, searchPages, notificationPage, recipientPages, deadLetterPages],
  ...[whatIfPage, auditPage],
];

/** The pages that ask Redis or this process for much, and each form. */
const DEAR = ['/search', '/what-if', '/recipients/*', '/notifications/*', '/dead-letters/*'];
/** How many of these one user may have under way, so that something is left for the others. */
const MOST_AT_ONCE = 4;

/** Every route of the console, and the checks before it. */
export function createConsoleApp(parts: ConsoleParts, sessions: Sessions): ConsoleApp {
  const { log, explain } = parts;
  const app: ConsoleApp = new Hono<ConsoleEnv>();
  const loginForm = createLoginForms();

  app.use(HEADERS);
  app.use(asBrowsersAsk);
  app.use(async (c, next) => {
    await next();
    if (!c.req.path.startsWith('/assets/')) c.header('Cache-Control', 'no-store');
  });

  app.get('/healthz', (c) => c.text('ok\n'));
  app.get('/assets/:name', (c) => {
    const asset = ASSETS.get(c.req.param('name'));
    if (asset === undefined) return c.text('no such file\n', 404);
    return c.body(asset.body, 200, { 'content-type': asset.type, 'cache-control': 'max-age=300' });
  });

  app.use(sessions.sameOrigin);
  app.get('/login', (c) => loginPage(c, sessions));
  app.post('/login', async (c) => {
    const form = await loginForm(c);
    const to = ownPath(form.get('to') ?? '');
    const wrong = await sessions.login(c, form.get('token') ?? '');
    return wrong === undefined ? c.redirect(to, 303) : loginPage(c, sessions, { wrong, to });
  });
  app.post('/logout', (c) => {
    sessions.logout(c);
    return c.redirect('/login', 303);
  });

  app.use(sessions.guard);
  app.use(async (c, next) => {
    const isSafe = c.req.method === 'GET' || c.req.method === 'HEAD';
    if (isSafe || c.get('user').role === 'operator') return next();
    return notice(c, { title: 'Only operators may do this', advice: FOR_VIEWERS, status: 403 });
  });
  const dear = inShares();
  for (const path of DEAR) app.use(path, dear);
  for (const add of PAGES) add(app, parts);

  app.notFound((c) =>
    notice(c, { title: 'No such page', advice: 'Search for a notification or a recipient instead.' }),
  );
  app.onError((error, c) => {
    if (error instanceof HTTPException) return c.text(`${error.message}\n`, error.status);
    const known = explain(error);
    if (known instanceof RedisAwayError || known instanceof LimiterUnavailableError) {
      const isAnswer = known instanceof RedisAwayError && known.trouble !== 'away';
      return notice(c, {
        title: isAnswer ? 'Redis cannot be used now' : 'Redis does not answer',
        advice: `${known.message}. Try again.`,
        status: 503,
      });
    }
    if (known instanceof NewerFormatError) {
      return notice(c, { title: 'A newer version wrote this', advice: known.message, status: 409 });
    }
    if (known instanceof InputError) return notice(c, { title: 'That cannot be', advice: known.message, status: 400 });
    log.error({ err: error }, 'unexpected error in a page');
    return notice(c, { title: 'Unexpected error', advice: 'The log of the console has it.', status: 500 });
  });
  return app;
}

const NOBODY = ["'none'"];
const SELF = ["'self'"];
const HEADERS = secureHeaders({
  xFrameOptions: 'DENY',
  strictTransportSecurity: false, // a proxy with TLS sets it
  contentSecurityPolicy: {
    ...{ defaultSrc: NOBODY, frameAncestors: NOBODY, baseUri: NOBODY, formAction: SELF, connectSrc: SELF },
    ...{ scriptSrc: [NONCE], styleSrc: [NONCE], imgSrc: ["'self'", 'data:'] },
  },
});

/** Refuses a page while its user has too many under way. A page counts until its work has ended, also if the client has left. */
function inShares(): MiddlewareHandler<ConsoleEnv> {
  const shares = createShares(MOST_AT_ONCE);
  return async (c, next) => {
    const share = shares.of(c.get('user').name);
    if (!share.take(1)) {
      c.header('Retry-After', '1');
      const advice = `${MOST_AT_ONCE} of your pages are under way. Try again in a moment.`;
      return notice(c, { title: 'Too many at once', advice, status: 429 });
    }
    await next(); // an error in a page does not reject here: it is an answer by now
    share.give(1);
    return undefined;
  };
}

const FOR_VIEWERS =
  'Your token has the scope read; one with the scope operate may act. A console that is read-only has no operators.';

/**
 * A path of the console itself, or `/`: `//elsewhere.example` would lead to another site, also with a tab or a line break in
 * it, since browsers leave these out of an address.
 */
function ownPath(to = ''): string {
  return /^\/(?![/\\])[^\p{Cc}]*$/u.test(to) ? to : '/';
}

function loginPage(
  c: Context<ConsoleEnv>,
  { isLoginWanted }: Sessions,
  { wrong, to = ownPath(c.req.query('to')) }: { readonly wrong?: string; readonly to?: string } = {},
): Response | Promise<Response> {
  if (!isLoginWanted) return c.redirect('/', 303);
  return page(c, {
    title: 'Log in',
    status: wrong === undefined ? 200 : 403,
    body: html`<form class="login" method="post" action="/login">
      <h1>Log in</h1>
      ${wrong === undefined ? '' : html`<p class="wrong" role="alert">${wrong}</p>`}
      <input type="hidden" name="to" value="${to}" />
      <label for="token">Token</label>
      <input id="token" name="token" type="password" autocomplete="current-password" required autofocus />
      <button>Log in</button>
      <p class="hint">A token with the scope <code>read</code> may look, one with <code>operate</code> may act.</p>
    </form>`,
  });
}

interface Asset {
  readonly body: string;
  readonly type: string;
}

/** All files that a page loads. They are read only once. */
const ASSETS: ReadonlyMap<string, Asset> = new Map([
  ['style.css', own('style.css', 'text/css')],
  ['console.js', own('console.js', 'text/javascript')],
  ['icon.svg', own('icon.svg', 'image/svg+xml')],
]);

function own(name: string, type: string): Asset {
  return { body: readFileSync(new URL(`assets/${name}`, import.meta.url), 'utf8'), type };
}
