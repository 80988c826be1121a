import { openBackend, watchTokens } from '../api/backend.ts';
import { createRefusals } from '../api/refusals.ts';
import { createRecipients } from '../api/recipients.ts';
import { listen, type Program } from '../api/serve.ts';
import type { ConsoleConfig } from '../src/config/config.ts';
import type { Logger } from '../src/observe/log.ts';
import { createAudit } from '../src/operations/audit.ts';
import { createConsoleApp } from './app.ts';
import { startSampler } from './samples.ts';
import { createSessions, isLoginWanted } from './session.ts';

/** Puts the parts of the console together. Rejects if the tokens have faults or the port is taken. Redis may come later. */
export async function startConsole(config: ConsoleConfig, log: Logger): Promise<Program> {
  const { queue, console: own } = config;
  const { host, login, readOnly, showTexts } = own;
  const backend = openBackend(config, 'console', log);
  const { connection, shards } = backend;
  const tokens = await watchTokens(own.tokensFile, isLoginWanted(own) ? log : log.child({}, { level: 'error' }));
  const stopping = new AbortController();
  const refusals = createRefusals('console', log);
  const sessions = createSessions({ tokens, refusals, host, login, readOnly, isSecure: own.tls !== undefined });
  const homes = async (id: string) => (await shards.homes(id)).map((shard) => shard.queue);
  const sampler = startSampler({ connection, shards: () => shards.open(), prefix: queue.prefix });
  const app = createConsoleApp(
    {
      ...backend,
      ...{ queue, showTexts, sampler, log, signal: stopping.signal },
      audit: createAudit(connection, queue.prefix),
      recipients: createRecipients({ redis: connection, homes, limiters: backend.limiters }),
    },
    sessions,
  );
  const served = await listen('console', app.fetch, own, log);
  return {
    url: served.url,
    ready: backend.reached,
    async close() {
      stopping.abort();
      sampler.stop();
      tokens.close();
      await served.close();
      refusals.close();
      await backend.close();
    },
  };
}
