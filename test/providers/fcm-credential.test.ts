import { expect, test, vi } from 'vitest';
import { renewAhead } from '../../src/providers/fcm-credential.ts';
import { waitFor } from '../support/wait.ts';

/** A source whose tokens are good for an hour, on a clock of our own. */
function signIns() {
  const clock = { ms: 0 };
  let made = 0;
  const getAccessToken = vi.fn(() => Promise.resolve({ access_token: `token-${++made}`, expires_in: 3_600 }));
  return { clock, getAccessToken, credential: renewAhead({ getAccessToken }, () => clock.ms) };
}

test('one sign-in serves all sends of its hour, also those that ask at once', async () => {
  const { credential, getAccessToken } = signIns();
  await Promise.all([credential.getAccessToken(), credential.getAccessToken()]);
  expect(await credential.getAccessToken()).toEqual({ access_token: 'token-1', expires_in: 3_600 });
  expect(getAccessToken).toHaveBeenCalledTimes(1);
});

test('near its end a token is still handed out, while the next one is fetched', async () => {
  const { clock, credential, getAccessToken } = signIns();
  await credential.getAccessToken();
  clock.ms = 3_600_000 - 120_000;
  getAccessToken.mockImplementationOnce(() => new Promise(() => undefined)); // a sign-in that takes its time
  expect(await credential.getAccessToken()).toEqual({ access_token: 'token-1', expires_in: 120 });
  expect(getAccessToken).toHaveBeenCalledTimes(2);
});

test('a renewal that fails is tried again, and fails a send only when there is no token left', async () => {
  const { clock, credential, getAccessToken } = signIns();
  await credential.getAccessToken();
  getAccessToken.mockImplementation(() => Promise.reject(new Error('invalid_grant')));
  clock.ms = 3_600_000 - 60_000;
  expect((await credential.getAccessToken()).access_token).toBe('token-1');
  await waitFor(async () => {
    await credential.getAccessToken();
    expect(getAccessToken.mock.calls.length).toBeGreaterThan(2);
  });
  clock.ms = 3_600_000 - 10_000;
  await expect(credential.getAccessToken()).rejects.toThrow('invalid_grant');
});
