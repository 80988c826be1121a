import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { openApns, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';

test('a connection that says goodbye while a send on it has been silent for long is replaced, and ends nothing', async () => {
  const sandbox = await openSandbox();
  const provider = await openApns(sandbox, { connections: 1, requestTimeoutMs: 4_000 });
  await provider.warm();
  const silent = makePush();
  sandbox.apns.script(silent.device.token, [{ kind: 'hang' }]);
  const answer = sendPush(provider, silent);
  await sleep(2_500); // beyond the silence after which a send has its connection looked after
  sandbox.apns.goAway();
  await sleep(100);
  expect(await sendPush(provider, makePush())).toMatchObject({ meaning: 'accepted' });
  expect(await answer).toMatchObject({ code: 'timeout' });
});
