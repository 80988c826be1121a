import { fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { fileURLToPath } from 'node:url';
import { installPackages } from '../../tools/install.ts';

/** A collector of traces on the loopback, in a process of its own, which reads what it gets and keeps nothing. It ends with this process. */
export interface Collector {
  /** Makes a worker record all that it can record: stories, outcomes and traces. */
  readonly env: Readonly<Record<string, string>>;
  /** Bytes of spans that arrived so far. */
  bytes(): Promise<number>;
  close(): Promise<void>;
}

/** @param say told that the SDK, which makes a worker record spans, is installed first */
export async function startCollector(say: (line: string) => void): Promise<Collector> {
  await installPackages('tools', say);
  const child = fork(fileURLToPath(import.meta.url), [], {
    execArgv: [],
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
  const exited = once(child, 'exit');
  const [port] = (await once(child, 'message')) as [number];
  return {
    env: {
      ...{ HISTORY_MAX: '100000', OUTCOMES_MAX: '100000' },
      ...{ OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`, NODE_OPTIONS: `--import=${SDK}` },
    },
    async bytes() {
      const answer = once(child, 'message');
      child.send('bytes');
      return ((await answer) as [number])[0];
    },
    async close() {
      child.disconnect();
      await exited;
    },
  };
}

const SDK = import.meta.resolve('../../tools/otel-sdk.ts');

/** The child process: sends its port, and then how much has arrived, each time that it is asked. */
function main(): void {
  let bytes = 0;
  const server = createServer((request, response) => {
    request.on('data', (chunk: Buffer) => (bytes += chunk.length));
    request.once('end', () => response.writeHead(200, { 'content-type': 'application/x-protobuf' }).end());
  });
  server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));
  process.on('message', () => process.send?.(bytes));
  process.once('disconnect', () => process.exit(0));
}

if (import.meta.main) main();
