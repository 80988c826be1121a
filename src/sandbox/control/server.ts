import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import { isIP, type AddressInfo } from 'node:net';
import { failure, route, type Controlled, type Reply } from './routes.ts';

export interface ControlOptions {
  /** 0 takes any free port. */
  readonly port: number;
  /** The address to listen on. */
  readonly host: string;
  /** The host name that clients use, if it is no address. */
  readonly name?: string | undefined;
}

/** Plain HTTP, by which people and tests in any language script a running sandbox and read its journal. */
export interface ControlServer {
  readonly port: number;
  /** Stops at once. */
  close(): Promise<void>;
}

/** Rejects with the system's error where the port is taken. */
export async function serveControl(sandbox: Controlled, options: ControlOptions): Promise<ControlServer> {
  const { port, host, name } = options;
  const server = createServer((request, response) => {
    if (!isOwnName(request.headers.host, name)) {
      send(response, failure(403, 'expected an address, localhost or the name of --name in the Host header'));
      request.resume();
      return;
    }
    route(sandbox, request).then(
      (reply) => send(response, reply),
      (error: unknown) => send(response, failure(500, String(error))),
    );
  });
  server.listen(port, host);
  await once(server, 'listening'); // rejects where there is an error instead
  return {
    port: (server.address() as AddressInfo).port,
    close: async () => {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

/**
 * A page in this machine's browser may have its own host name point here (DNS rebinding), to read the journal. Then the Host
 * header has that name.
 */
function isOwnName(header: string | undefined, name: string | undefined): boolean {
  if (header === undefined || !URL.canParse(`http://${header}`)) return false;
  const { hostname } = new URL(`http://${header}`);
  return hostname === 'localhost' || hostname === name?.toLowerCase() || isIP(hostname.replace(/^\[|\]$/g, '')) !== 0;
}

function send(response: ServerResponse, { status, json, text, headers = {} }: Reply): void {
  const isJson = json !== undefined;
  const body = isJson ? `${JSON.stringify(json, null, 2)}\n` : (text ?? '');
  const type = { 'content-type': isJson ? 'application/json' : 'text/plain' };
  response.writeHead(status, { ...(body === '' ? {} : type), ...headers }).end(body);
}
