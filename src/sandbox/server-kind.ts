import type { LoopbackOptions, LoopbackServer } from './loopback/server.ts';

/** What tests can set for the servers. */
export interface ServerOptions {
  /** Streams that an HTTP/2 connection may have at once. Default: as the real provider, 100 or 1,000. */
  readonly maxStreams?: number;
  /** Least time between two provider tokens of one APNs connection, in milliseconds. Default: 20 minutes. */
  readonly apnsTokenUpdateMs?: number;
}

/** How the sandbox runs the loopback server of one provider. */
export interface ServerKind<Server extends LoopbackServer> {
  /** The provider's real host name. The certificate has it too, for clients that only use another address. */
  readonly host: string;
  readonly key: ServerKey;
  /** @param key PKCS#8 PEM */
  readonly create: (options: LoopbackOptions & ServerOptions, key: string) => Server;
  /** The variable that points a worker at the server's URL. */
  readonly urlVariable: string;
  /** The other variables that a worker needs. */
  readonly env: (files: WorkerFiles) => Readonly<Record<string, string>>;
}

/** The key by which the server knows its workers. It is kept for the next sandbox in the same folder. */
export interface ServerKey {
  /** The name of the file that a worker reads. */
  readonly file: string;
  /** PKCS#8 PEM. */
  readonly make: () => Promise<string>;
  /** For a file that holds more than the key. */
  readonly format?: {
    /** @param url the server's */
    readonly write: (key: string, url: string) => string;
    readonly read: (text: string) => string;
  };
}

/** The paths of the files that a worker reads, absolute. */
interface WorkerFiles {
  readonly ca: string;
  /** The provider's key. */
  readonly key: string;
}
