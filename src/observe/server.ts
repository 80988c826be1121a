import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/** The content of a worker's pages. */
export interface Pages {
  readonly metrics: () => Promise<{ readonly contentType: string; readonly body: string }>;
  /** Why the worker should be restarted; undefined if it should not. */
  readonly sick: () => Sickness | Promise<Sickness>;
  /** Whether the worker can work, and if not, what is missing. */
  readonly ready: () => Promise<{ readonly ok: boolean; readonly detail: Readonly<Record<string, unknown>> }>;
}

export type Sickness = Readonly<Record<string, unknown>> | undefined;

export interface MetricsServer {
  readonly url: string;
  close(): Promise<void>;
}

/**
 * Serves `/metrics`, `/healthz` (200, or 503 with the reason for a restart) and `/readyz` (200 or 503, with the detail). If the
 * port is in use, it calls `onPortTaken` and takes any free port, since several workers may run on one host.
 */
export async function serveMetrics(
  { host, port }: { readonly host: string; readonly port: number },
  pages: Pages,
  onPortTaken: (taken: number) => void,
): Promise<MetricsServer> {
  const server = createServer((request, response) => {
    respond(request, pages, response).catch((error: unknown) => {
      answer(response, 500, `${error instanceof Error ? error.message : String(error)}\n`);
    });
  });
  await listen(server, host, port).catch(async (error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    onPortTaken(port);
    await listen(server, host, 0);
  });
  const { address, family, port: actual } = server.address() as AddressInfo;
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${actual}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** An `async` function, since an error that is thrown outside of a promise would end the worker, with its jobs under way. */
async function respond({ method, url }: IncomingMessage, pages: Pages, response: ServerResponse): Promise<void> {
  if (method !== 'GET' && method !== 'HEAD') {
    answer(response, 405, 'only GET\n');
    return;
  }
  // `url` may be no URL, for example `//`.
  switch (URL.parse(url ?? '/', 'http://replica')?.pathname) {
    case undefined:
      answer(response, 400, 'expected a path, such as /metrics\n');
      return;
    case '/healthz': {
      const sick = await pages.sick();
      if (sick === undefined) answer(response, 200, 'ok\n');
      else answer(response, 503, `${JSON.stringify({ ok: false, ...sick })}\n`, 'application/json');
      return;
    }
    case '/readyz': {
      const { ok, detail } = await pages.ready();
      answer(response, ok ? 200 : 503, `${JSON.stringify({ ok, ...detail })}\n`, 'application/json');
      return;
    }
    case '/metrics': {
      const { contentType, body } = await pages.metrics();
      answer(response, 200, body, contentType);
      return;
    }
    default:
      answer(response, 404, 'try /metrics, /healthz or /readyz\n');
  }
}

function answer(response: ServerResponse, status: number, body: string, contentType = 'text/plain'): void {
  response.writeHead(status, { 'content-type': contentType }).end(body);
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject).listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
}
