import { generateKeyPairSync } from 'node:crypto';
import { expect, test } from 'vitest';
import { openSandbox } from '../support/sandbox.ts';
import { connectApns, signJwt, verdict, type JwtOptions } from './apns-client.ts';

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
const INVALID = { status: 403, reason: 'InvalidProviderToken' };
const EXPIRED = { status: 403, reason: 'ExpiredProviderToken' };
const TOO_MANY_UPDATES = { status: 429, reason: 'TooManyProviderTokenUpdates' };
const ACCEPTED = { status: 200 };

const strangersKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey;

test.each<[string, JwtOptions, object]>([
  ['of another key', { key: strangersKey }, INVALID],
  ["with another key's id", { kid: 'OTHERKEY01' }, INVALID],
  ['that does not tell when it was issued', { issuedAt: null }, INVALID],
  ["with another team's id", { iss: 'OTHERTEAM1' }, INVALID],
  ['from the future', { issuedAt: Date.now() + 10 * MINUTE_MS }, INVALID],
  ['from a clock that is a little ahead', { issuedAt: Date.now() + 10_000 }, ACCEPTED],
  ['of 59 minutes', { issuedAt: Date.now() - 59 * MINUTE_MS }, ACCEPTED],
  ['of an hour', { issuedAt: Date.now() - HOUR_MS }, EXPIRED],
])('a token %s', async (_what, options, expected) => {
  const sandbox = await openSandbox();
  const client = await connectApns(sandbox, { jwt: await signJwt(sandbox, options) });
  expect(verdict(await client.post())).toEqual(expected);
  expect(verdict(await client.post())).toEqual(expected); // the second time from what was remembered
});

test('a token that nobody signed is not taken', async () => {
  const sandbox = await openSandbox();
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const env = sandbox.env();
  const claims = encode({ iss: env['APNS_TEAM_ID'], iat: Math.floor(Date.now() / 1_000) });
  const unsigned = `${encode({ alg: 'none', kid: env['APNS_KEY_ID'] })}.${claims}.`;
  const client = await connectApns(sandbox, { jwt: unsigned });
  expect(verdict(await client.post())).toEqual(INVALID);
});

test('a token grows old while its connection stays up, and a new one is taken at once', async () => {
  let nowMs = Date.now();
  const sandbox = await openSandbox({ now: () => nowMs });
  const client = await connectApns(sandbox, { jwt: await signJwt(sandbox, { issuedAt: nowMs }) });
  expect(verdict(await client.post())).toEqual(ACCEPTED);
  nowMs += HOUR_MS + 1_000;
  expect(verdict(await client.post())).toEqual(EXPIRED);
  const renewed = `bearer ${await signJwt(sandbox, { issuedAt: nowMs })}`;
  expect(verdict(await client.post({ headers: { authorization: renewed } }))).toEqual(ACCEPTED);
});

test('a connection may change its token once in 20 minutes', async () => {
  let nowMs = Date.now();
  const sandbox = await openSandbox({ now: () => nowMs });
  const bearer = async (salt: string) => `bearer ${await signJwt(sandbox, { issuedAt: nowMs, salt })}`;
  const client = await connectApns(sandbox);
  const post = async (authorization: string) => verdict(await client.post({ headers: { authorization } }));
  const [first, second] = [await bearer('1'), await bearer('2')];
  expect(await post(first)).toEqual(ACCEPTED);
  nowMs += 20 * MINUTE_MS - 1;
  expect(await post(second)).toEqual(TOO_MANY_UPDATES);
  expect(await post(first)).toEqual(ACCEPTED); // the refused one did not take its place
  nowMs += 1;
  expect(await post(second)).toEqual(ACCEPTED);
  expect(await post(first)).toEqual(TOO_MANY_UPDATES);

  const other = await connectApns(sandbox, { jwt: await signJwt(sandbox, { issuedAt: nowMs, salt: '3' }) });
  expect(verdict(await other.post())).toEqual(ACCEPTED); // it counts by connection
});

test('how soon a token may change is an option', async () => {
  const sandbox = await openSandbox({ apnsTokenUpdateMs: 0 });
  const client = await connectApns(sandbox);
  expect(verdict(await client.post())).toEqual(ACCEPTED);
  const authorization = `bearer ${await signJwt(sandbox, { salt: 'other' })}`;
  expect(verdict(await client.post({ headers: { authorization } }))).toEqual(ACCEPTED);
});

test('a revoked key is refused, whatever the token, until it is restored', async () => {
  const sandbox = await openSandbox();
  const client = await connectApns(sandbox);
  expect(verdict(await client.post())).toEqual(ACCEPTED);
  sandbox.apns.revokeKey();
  expect(verdict(await client.post())).toEqual(INVALID);
  sandbox.apns.restoreKey();
  expect(verdict(await client.post())).toEqual(ACCEPTED);
});

test('tokens can be made to expire: only one that is made anew is taken', async () => {
  const sandbox = await openSandbox();
  const client = await connectApns(sandbox);
  expect(verdict(await client.post())).toEqual(ACCEPTED);
  await sandbox.apns.expireTokens();
  expect(verdict(await client.post())).toEqual(EXPIRED);
  const authorization = `bearer ${await signJwt(sandbox, { salt: 'renewed' })}`;
  expect(verdict(await client.post({ headers: { authorization } }))).toEqual(ACCEPTED);
});

test('a scripted ExpiredProviderToken lets the connection change its token', async () => {
  const sandbox = await openSandbox();
  const client = await connectApns(sandbox);
  sandbox.apns.script('ab01', [{ kind: 'refuse', ...EXPIRED }]);
  expect(verdict(await client.post())).toEqual(EXPIRED);
  const authorization = `bearer ${await signJwt(sandbox, { salt: 'renewed' })}`;
  expect(verdict(await client.post({ headers: { authorization } }))).toEqual(ACCEPTED);
});
