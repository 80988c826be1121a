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
  send(order?: Omit<SendOrder, 'id' | 'forever'>): Promise<{ readonly reply: Promise<Reply> }>;
  /** Sends so many at a time without an end, and tells no replies; each alert's body is its `leaveBy` in epoch milliseconds. */
  sendForever(atOnce: number, leaveInMs: number): Promise<void>;
  /** SIGSTOP; what is sent to it meanwhile waits. */
  stop(): void;
  /** SIGCONT. */
  resume(): void;
}

/** For the next message of its kind; a reply is for the order of its id. */
interface Waiter {
  readonly kind: SenderMessage['kind'];
  readonly id: number | undefined;
  readonly resolve: (message: SenderMessage) => void;
  readonly reject: (error: Error) => void;
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
  const waiting = new Set<Waiter>();
  let orders = 0;
  const next = (kind: SenderMessage['kind'], id?: number): Promise<SenderMessage> =>
    new Promise((resolve, reject) => waiting.add({ kind, id, resolve, reject }));
  child.on('message', (message: SenderMessage) => {
    const isFor = ({ kind, id }: Waiter): boolean => message.kind === kind && message.id === id;
    const waiter = [...waiting].find(isFor);
    if (waiter === undefined) return;
    waiting.delete(waiter);
    waiter.resolve(message);
  });
  child.once('exit', () => {
    for (const { reject } of waiting) reject(new Error('the sender ended'));
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
      child.send({ ...order, id } satisfies SendOrder);
      await sending;
      return { reply };
    },
    async sendForever(atOnce, leaveInMs) {
      const sending = next('sending');
      child.send({ forever: atOnce, leaveInMs } satisfies SendOrder);
      await sending;
    },
    stop: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
  };
}
