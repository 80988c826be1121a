import { join } from 'node:path';
import { addToken, type Scope } from '../../api/tokens.ts';
import { temporaryFolder } from './program.ts';
import { startProcess, type TestProcess } from './process.ts';

/** The API as its own process. */
export interface ApiProcess {
  readonly process: TestProcess;
  readonly url: string;
  /** Of a token with the scopes. */
  readonly secret: string;
}

export async function startApiProcess(
  env: Readonly<Record<string, string | undefined>>,
  scopes: readonly Scope[] = ['send', 'read'],
): Promise<ApiProcess> {
  const tokensFile = join(await temporaryFolder(), 'tokens.json');
  const secret = await addToken(tokensFile, { name: 'school-app', scopes: [...scopes] });
  const own = { API_PORT: '0', API_TOKENS_FILE: tokensFile };
  const process = startProcess({ args: ['api/api.ts'], env: { ...env, ...own } });
  const { url } = JSON.parse(await process.waitForLine(/"msg":"the API is ready"/)) as { url: string };
  return { process, url, secret };
}
