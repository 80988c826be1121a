import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { open, readFile, rename, rm } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { InputError, zodFaults, type Fault } from '../src/domain/faults.ts';
import { watchFiles } from '../src/environment/files.ts';
import type { Logger } from '../src/observe/log.ts';

/**
 * The bearer tokens of the HTTP API: a JSON file with the name, the scopes and the SHA-256 of each. A token has 32 random
 * bytes, so it cannot be found from its hash, and a slow hash would only slow down each request.
 */

/**
 * What a token allows: to enqueue, cancel and retract; to read what became of notifications; to act on recipients and dead
 * letters; to take slots for what others send.
 */
export const SCOPES = ['send', 'read', 'operate', 'limit'] as const;
export type Scope = (typeof SCOPES)[number];

const NAME = /^[A-Za-z0-9._-]{1,64}$/;
export const NAME_FORMAT = '1 to 64 of A-Z a-z 0-9 . _ -';

export function isName(text: string): boolean {
  return NAME.test(text);
}

const tokenSchema = z.strictObject({
  name: z.string().regex(NAME, { error: NAME_FORMAT }),
  sha256: z.string().regex(/^[0-9a-f]{64}$/, { error: '64 hexadecimal digits' }),
  scopes: z.array(z.enum(SCOPES)).min(1),
  /** If more notifications than this wait in the queue, this token enqueues none. Default: API_MAX_WAITING. */
  maxWaiting: z.int().min(1).optional(),
  createdAt: z.iso.datetime(),
});
const fileSchema = z.strictObject({ tokens: z.array(tokenSchema) });

/** A token without its secret. */
export type Token = Readonly<z.output<typeof tokenSchema>>;

/** Every secret begins with this, so that tools that look for leaked secrets can find it. */
const MARK = 'pp_';
const SECRET = /^pp_[A-Za-z0-9_-]{43}$/;

function hashOf(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}

/** The beginning of an error about the file of the tokens. */
function unusable(path: string): string {
  return `unusable tokens in ${path} (API_TOKENS_FILE)`;
}

/** The tokens in the text of a file. Throws InputError with every fault; no fault shows a hash. */
export function parseTokens(text: string, path: string): readonly Token[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new InputError(unusable(path), [{ path: '', expected: 'JSON', found: 'text that is not JSON' }]);
  }
  const result = fileSchema.safeParse(value);
  const faults: Fault[] = result.success ? [] : zodFaults(result.error, value, ([, , field]) => field === 'sha256');
  const tokens = result.data?.tokens ?? [];
  for (const [index, { name }] of tokens.entries()) {
    if (tokens.findIndex((other) => other.name === name) === index) continue;
    faults.push({ path: `tokens[${index}].name`, expected: 'a name that no other token has', found: name });
  }
  if (faults.length > 0) throw new InputError(unusable(path), faults);
  return tokens;
}

/** The tokens of the file; none if there is no file. Rejects with InputError if it cannot be read or has faults. */
export async function readTokens(path: string): Promise<readonly Token[]> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return [];
    const found = code === 'EISDIR' ? 'a folder' : `none (${code})`;
    throw new InputError(unusable(path), [{ path: '', expected: 'a file that can be read', found }]);
  }
  return parseTokens(text, path);
}

/** Changes the file in one step: a reader sees either the old file or the new one, as a whole. Only its owner can read it. */
async function changeTokens<T>(path: string, change: (tokens: readonly Token[]) => [readonly Token[], T]): Promise<T> {
  const draft = `${path}.new`;
  const file = await open(draft, 'wx', 0o600).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    const expected = 'no other change at the same time';
    throw new InputError('cannot change the tokens', [
      { path: draft, expected, found: 'this file (remove it if none is under way)' },
    ]);
  });
  try {
    const [tokens, result] = change(await readTokens(path));
    await file.writeFile(`${JSON.stringify({ tokens }, undefined, 2)}\n`);
    await file.sync();
    await rename(draft, path);
    return result;
  } catch (error) {
    await rm(draft, { force: true });
    throw error;
  } finally {
    await file.close();
  }
}

/** Adds a token, and answers its secret, which is not stored anywhere. Throws InputError if the name is taken. */
export async function addToken(path: string, token: Pick<Token, 'name' | 'scopes' | 'maxWaiting'>): Promise<string> {
  const secret = `${MARK}${randomBytes(32).toString('base64url')}`;
  return changeTokens(path, (tokens) => {
    if (tokens.some(({ name }) => name === token.name)) {
      const expected = 'a name that no other token has (revoke that one first)';
      throw new InputError('cannot add a token', [{ path: 'name', expected, found: token.name }]);
    }
    const { name, scopes, maxWaiting } = token;
    const added: Token = {
      ...{ name, sha256: hashOf(secret).toString('hex'), scopes: [...scopes] },
      ...(maxWaiting !== undefined && { maxWaiting }),
      createdAt: new Date().toISOString(),
    };
    return [[...tokens, added], secret];
  });
}

/** Removes a token. False if no token has this name. */
export async function revokeToken(path: string, name: string): Promise<boolean> {
  return changeTokens(path, (tokens) => {
    const left = tokens.filter((token) => token.name !== name);
    return [left, left.length < tokens.length];
  });
}

/** The tokens that are valid now. */
export interface TokenBook {
  /** The token with this secret; undefined if none has it. Takes the same time for every secret. */
  find(secret: string): Token | undefined;
  close(): void;
}

export interface TokenBookOptions {
  readonly path: string;
  /** Called with the tokens at the start and after each change of the file. */
  readonly onRead: (tokens: readonly Token[]) => void;
  /** Called if the file has faults, or cannot be read: the tokens then stay as they were. */
  readonly onFault: (error: unknown) => void;
}

/** How often to look at the file. A change is in force when it was seen twice, so after three times this time at most. */
const LOOK_EVERY_MS = 1_000;

/** Reads the tokens, and again after each change of the file. Throws InputError if the file has faults at the start. */
export async function openTokens({ path, onRead, onFault }: TokenBookOptions): Promise<TokenBook> {
  let hashes: { readonly hash: Buffer; readonly token: Token }[] = [];
  let known: readonly Token[] | undefined;
  const read = async (): Promise<void> => {
    const tokens = await readTokens(path);
    hashes = tokens.map((token) => ({ hash: Buffer.from(token.sha256, 'hex'), token }));
    if (!isDeepStrictEqual(tokens, known)) onRead(tokens);
    known = tokens;
  };
  await read();
  const watch = watchFiles(() => void read().catch(onFault), LOOK_EVERY_MS);
  watch.use([path]);
  return {
    find(secret) {
      if (!SECRET.test(secret)) return undefined;
      const given = hashOf(secret);
      let found: Token | undefined;
      for (const { hash, token } of hashes) if (timingSafeEqual(hash, given)) found = token;
      return found;
    },
    close: () => {
      watch.stop();
    },
  };
}

/** The tokens of the file, read again when the file changes. Rejects if the file has faults at the start. */
export function watchTokens(path: string, log: Pick<Logger, 'info' | 'warn' | 'error'>): Promise<TokenBook> {
  return openTokens({
    path,
    onRead: (found) => {
      if (found.length === 0) log.warn({ file: path }, 'there is no token yet: pushpacer token add <name>');
      else log.info({ tokens: found.map(({ name, scopes }) => `${name} (${scopes.join(', ')})`) }, 'tokens read');
    },
    onFault: (error) => {
      log.error({ err: error }, 'the file of tokens has faults: the tokens stay as they were');
    },
  });
}
