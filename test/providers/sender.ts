import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { Reply } from '../../src/providers/provider.ts';
import type { Sandbox } from '../../src/sandbox/sandbox.ts';
import type { SendOrder, SenderMessage } from './sender-child.ts';

/** A process of its own that sends on one connection; it can be stopped, as a paused container is. */
export interface Sender {
  /** Resolves once the send is under way. */
  send(order?: SendOrder): Promise<{ readonly reply: Promise<Reply> }>;
  /** SIGSTOP; what is sent to it meanwhile waits. */
  stop(): void;
  /** SIGCONT. */
  resume(): void;
}

const CHILD = fileURLToPath(new URL('sender-child.ts', import.meta.url));

export async function startSender(
  sandbox: Sandbox,
  platform: 'apns' | 'fcm',
  env: Readonly<Record<string, string>> = {},
): Promise<Sender> {
  const child = fork(CHILD, {
    env: { ...process.env, ...sandbox.env(), CA_FILE: sandbox.caFile, PLATFORM: platform, ...env },
    execArgv: [],
  });
  onTestFinished(async () => {
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  });
  const waiting: ((message: SenderMessage) => boolean)[] = [];
  let orders = 0;
  const next = (kind: SenderMessage['kind'], id?: number): Promise<SenderMessage> =>
    new Promise((resolve, reject) => {
      child.once('exit', () => reject(new Error('the sender ended')));
      waiting.push((message) => {
        const isIt = message.kind === kind && (message.kind !== 'reply' || message.id === id);
        if (isIt) resolve(message);
        return isIt;
      });
    });
  child.on('message', (message: SenderMessage) => {
    const index = waiting.findIndex((take) => take(message));
    if (index >= 0) waiting.splice(index, 1);
  });
  await next('ready');
  return {
    async send(order = {}) {
      const sending = next('sending');
      const id = (orders += 1);
      const reply = next('reply', id).then((message) => {
        if (message.kind !== 'reply') throw new Error('expected a reply');
        return message.reply;
      });
      child.send({ ...order, id });
      await sending;
      return { reply };
    },
    stop: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
  };
}
