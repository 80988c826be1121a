import { createPublicKey, generateKeyPairSync } from 'node:crypto';
import { expect, test } from 'vitest';
import { openSandbox } from '../support/sandbox.ts';
import { connectApns, signJwt, verdict } from './apns-client.ts';
import { connectFcmHttp2 } from './fcm-client.ts';

test('APNs takes a second app, with its own key and topic, and each key may be revoked alone', async () => {
  const sandbox = await openSandbox();
  const { privateKey: key } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const [kid, iss, topic] = ['OTHERKEY', 'OTHERTEAM', 'dev.other'];
  sandbox.apns.addKey({ signer: { publicKey: createPublicKey(key), keyId: kid, teamId: iss }, topic });
  const own = await connectApns(sandbox);
  const other = await connectApns(sandbox, { jwt: await signJwt(sandbox, { key, kid, iss }) });
  const headers = { 'apns-topic': topic };
  expect(verdict(await other.post({ headers }))).toEqual({ status: 200 });
  expect(sandbox.journal.accepted).toMatchObject([{ topic, keyId: kid, teamId: iss }]);
  expect(verdict(await other.post())).toEqual({ status: 400, reason: 'TopicDisallowed' });
  expect(verdict(await own.post({ headers }))).toEqual({ status: 400, reason: 'TopicDisallowed' });

  sandbox.apns.revokeKey(kid);
  expect(verdict(await other.post({ headers }))).toEqual({ status: 403, reason: 'InvalidProviderToken' });
  expect(verdict(await own.post())).toEqual({ status: 200 });
  sandbox.apns.restoreKey(kid);
  expect(verdict(await other.post({ headers }))).toEqual({ status: 200 });
});

test('FCM takes a second project, and each may be signed out alone', async () => {
  const sandbox = await openSandbox();
  const client = await connectFcmHttp2(sandbox);
  const message = { token: 'dGVz:APA91b', notification: { title: 'Room 12' } };
  const path = '/v1/projects/other/messages:send';
  expect((await client.send(message, { path })).status).toBe(403);
  sandbox.fcm.addProject('other');
  expect(JSON.parse((await client.send(message, { path })).body)).toMatchObject({
    name: expect.stringMatching(/^projects\/other\/messages\//) as string,
  });
  sandbox.fcm.revokeKey('other');
  expect((await client.send(message, { path })).status).toBe(401);
  expect((await client.send(message)).status).toBe(200);
  sandbox.fcm.restoreKey();
  expect((await client.send(message, { path })).status).toBe(200);
  expect(sandbox.journal.accepted.map(({ projectId }) => projectId)).toEqual(['other', 'pushpacer-sandbox', 'other']);
});
