import { openBackend } from '../api/backend.ts';
import { createRefusals } from '../api/refusals.ts';
import { listen, type Program } from '../api/serve.ts';
import { watchTokens } from '../api/tokens.ts';
import type { ConsoleConfig } from '../src/config/config.ts';
import type { Logger } from '../src/observe/log.ts';
import { createConsoleApp } from './app.ts';
import { startSampler } from './samples.ts';
import { createSessions, isLoginWanted } from './session.ts';

/**
 * Puts the parts of the console together. If the tokens have faults or the port is taken, it closes everything and rejects with
 * InputError. Redis may start later.
 */
export async function startConsole(config: ConsoleConfig, log: Logger): Promise<Program> {
  const { console: own } = config;
  const { host, login, readOnly, showTexts } = own;
  await using starting = new AsyncDisposableStack();
  const backend = starting.adopt(openBackend(config, 'console', log), (it) => it.close());
  const { connection, shards, prefix } = backend;
  const quiet = isLoginWanted(own) ? log : log.child({}, { level: 'error' });
  const tokens = starting.adopt(await watchTokens(own.tokensFile, quiet), (it) => it.close());
  const refusals = starting.adopt(createRefusals('console', log), (it) => it.close());
  const sessions = createSessions({ tokens, refusals, host, login, readOnly, isSecure: own.tls !== undefined });
  const sampler = startSampler({ connection, shards: () => shards.open(), prefix });
  starting.defer(() => sampler.stop());
  const app = createConsoleApp({ ...backend, showTexts, sampler, log }, sessions);
  const served = await listen({ name: 'console', variables: 'CONSOLE' }, app.fetch, own, log);
  starting.defer(() => served.close());
  starting.defer(() => void backend.takes.close());
  const opened = starting.move();
  return { url: served.url, ready: backend.reached, close: () => opened.disposeAsync() };
}
