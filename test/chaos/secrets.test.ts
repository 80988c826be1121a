import { readFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { findLeaks, secretsOf } from '../../../chaos/run.ts';
import { openSandbox } from '../../support/providers.ts';

const MARKER = '0123456789ab';

it('finds tokens, texts, keys and credentials, and tells where and of which kind', async () => {
  const env = (await openSandbox()).env();
  const secrets = await secretsOf(MARKER, env);
  const kinds = (text: string) => findLeaks('a log', text, secrets).map(({ name }) => name);
  const apnsKey = await readFile(env['APNS_KEY_FILE'] ?? '', 'utf8');
  const account = JSON.parse(await readFile(env['GOOGLE_APPLICATION_CREDENTIALS'] ?? '', 'utf8')) as {
    private_key: string;
  };

  expect(kinds('{"level":"info","id":"n17","recipientId":"recipient-3","msg":"delivered"}')).toEqual([]);
  expect(kinds(`token 00${MARKER.toUpperCase()}00`)).toEqual(['a token or a text']);
  expect(kinds(apnsKey.split('\n')[1] ?? '')).toEqual(['the key of APNS_KEY_FILE']);
  expect(kinds(JSON.stringify(account.private_key))).toEqual(['the key of GOOGLE_APPLICATION_CREDENTIALS']);
  expect(kinds('authorization: Bearer owner')).toEqual(['a bearer token']);
  expect(kinds('eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJTQU5EQk9YIn0.c2ln')).toEqual(['a JWT']);
  expect(findLeaks('a log', `${MARKER} ${MARKER}`, secrets)).toEqual([
    { where: 'a log', name: 'a token or a text', times: 2 },
  ]);
});
