import { fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { onTestFinished } from 'vitest';
import type { Reply } from '../../src/providers/provider.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import type { SendingMessage, SendOrder } from './sending-child.ts';

/** A process of its own with a provider of APNs; it can be stopped, as a paused container is. */
export interface SendingProcess {
  send(order?: Omit<SendOrder, 'id'>): Promise<Reply>;
  /** SIGSTOP; what is asked of it meanwhile waits. */
  stop(): void;
  /** SIGCONT. */
  resume(): void;
}

const CHILD = fileURLToPath(new URL('sending-child.ts', import.meta.url));

export async function startSendingProcess(
  sandbox: Sandbox,
  env: Readonly<Record<string, string>> = {},
): Promise<SendingProcess> {
  const child = fork(CHILD, {
    env: { ...process.env, ...sandbox.env(), CA_FILE: sandbox.caFile, ...env },
    execArgv: [],
  });
  child.setMaxListeners(0); // one for each answer that is awaited
  const ended = once(child, 'exit');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  const messageOf = (isIt: (message: SendingMessage) => boolean): Promise<SendingMessage> =>
    new Promise((resolve, reject) => {
      child.on('message', (message: SendingMessage) => {
        if (isIt(message)) resolve(message);
      });
      void ended.then(() => reject(new Error('the sending process ended')));
    });
  await messageOf(({ kind }) => kind === 'ready');
  let orders = 0;
  return {
    async send(order = {}) {
      const id = (orders += 1);
      const answer = messageOf((message) => message.kind === 'reply' && message.id === id);
      child.send({ ...order, id } satisfies SendOrder);
      const message = await answer;
      if (message.kind !== 'reply') throw new Error('expected a reply');
      return message.reply;
    },
    stop: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
  };
}
