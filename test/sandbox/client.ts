import type { Sandbox, SandboxOptions } from '../../sandbox/sandbox.ts';
import { openSandbox } from '../support/sandbox.ts';
import { connectApns } from './apns-client.ts';
import { connectFcm, connectFcmHttp2 } from './fcm-client.ts';

/** A sandbox and a client of it: `await open(connectApns)`. */
export async function open<Client>(connect: (sandbox: Sandbox) => Promise<Client>, options: SandboxOptions = {}) {
  const sandbox = await openSandbox(options);
  return { sandbox, client: await connect(sandbox) };
}

/** Sends one alert and gives the status. */
type Send = (to?: { readonly token?: string; readonly path?: string }) => Promise<number>;

/** Each way to send, by the same few words. */
export const SENDERS = {
  apns: async (sandbox: Sandbox): Promise<Send> => {
    const client = await connectApns(sandbox);
    return async (to) => (await client.post(to)).status;
  },
  'fcm over HTTP/2': async (sandbox: Sandbox): Promise<Send> => {
    const client = await connectFcmHttp2(sandbox);
    return async ({ token = 'ab01', ...request } = {}) => (await client.send({ token }, request)).status;
  },
  'fcm over HTTP/1.1': async (sandbox: Sandbox): Promise<Send> => {
    const client = await connectFcm(sandbox, 50);
    return async ({ token = 'ab01', ...request } = {}) => (await client.send({ token }, request)).status;
  },
};

/** One for each provider. */
export const SENDER_TO = { apns: SENDERS.apns, fcm: SENDERS['fcm over HTTP/1.1'] };
