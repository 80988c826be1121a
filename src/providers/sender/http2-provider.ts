import { errorChain } from '../../domain/error-chain.ts';
import type { Platform } from '../../domain/notification.ts';
import { redact } from '../../domain/redact.ts';
import type { Credential } from '../credential.ts';
import type { Encoded, Permit, Prepared, Provider, Push, Reply, Reserved, SendOptions } from '../provider.ts';
import { lostReply, transportReply } from '../replies.ts';
import type { Answered, SendResult, Unsent } from './result.ts';
import type { Sender } from './sender.ts';

/** What differs between push services. */
export interface PushService {
  readonly platform: Platform;
  readonly sender: Sender;
  readonly credential: Credential;
  readonly prepare: (push: Push) => Prepared;
  /** The table of answers. */
  readonly readAnswer: (answer: Answered, push: Push) => Reply;
  /** Whether the provider says that the credentials have expired: nothing was processed, and new ones may succeed. */
  readonly isExpired: (reply: Reply) => boolean;
}

/** A push service over HTTP/2, whose requests carry an `authorization` header. */
export function createHttp2Provider(service: PushService): Provider {
  const { platform, sender, credential, prepare, readAnswer, isExpired } = service;
  let underWay = 0;
  /** Called when the last send under way has ended; `close` waits for it. */
  let onIdle: () => void = () => undefined;
  /** The sends that wait for credentials; `abort` answers them. */
  const waiting = new Set<(reply: Reply) => void>();
  let isClosed = false;
  let closing: Promise<void> | undefined;

  /** The result of `work`, or the reply `cancelled` if `abort` comes first. */
  function unlessAborted<T>(work: Promise<T>): Promise<T | Reply> {
    const { promise, resolve, reject } = Promise.withResolvers<T | Reply>();
    waiting.add(resolve);
    void work.then(resolve, reject).finally(() => waiting.delete(resolve));
    return promise;
  }

  function sendOnce({ path, headers, body }: Encoded, authorization: string, when: SendOptions): Promise<SendResult> {
    const request = { headers: { ':method': 'POST', ':path': path, ...headers, authorization }, body };
    return sender.send(request, when);
  }

  function replyOf(result: SendResult, push: Push): Reply {
    return result.kind === 'answered' ? readAnswer(result, push) : lostReply(result, push);
  }

  /** Sends once more if there are credentials other than the expired ones. */
  async function sendAgain(encoded: Encoded, options: SendOptions, expired: string, reply: Reply): Promise<Reply> {
    const renewed = await unlessAborted(renew(expired));
    if (typeof renewed !== 'string') return renewed ?? reply;
    return replyOf(await sendOnce(encoded, renewed, { ...options, permit: undefined }), encoded.push);
  }

  /** New credentials in place of the expired ones; undefined if there are none. */
  async function renew(expired: string): Promise<string | Reply | undefined> {
    return (await credential.replace(expired)) ? credential.obtain() : undefined;
  }

  async function reserveSlowly(): Promise<Reserved> {
    const authorization = await unlessAborted(credential.obtain());
    if (typeof authorization !== 'string') return { kind: 'none', reply: authorization };
    return reserved(await sender.reserve());
  }

  async function close(): Promise<void> {
    isClosed = true;
    if (underWay > 0) await new Promise<void>((resolve) => (onIdle = resolve));
    await sender.close();
  }

  return {
    platform,
    prepare,
    reserve() {
      if (isClosed) return { kind: 'none', reply: transportReply('closed') };
      if (credential.current() === undefined) return reserveSlowly();
      const found = sender.reserve();
      return found instanceof Promise ? found.then(reserved) : reserved(found);
    },
    async send(encoded, options = {}) {
      if (isClosed) {
        options.permit?.release();
        return transportReply('closed');
      }
      underWay += 1;
      try {
        const authorization = credential.current() ?? (await unlessAborted(credential.obtain()));
        if (typeof authorization !== 'string') {
          options.permit?.release();
          return authorization;
        }
        const reply = replyOf(await sendOnce(encoded, authorization, options), encoded.push);
        return isExpired(reply) ? await sendAgain(encoded, options, authorization, reply) : reply;
      } catch (error) {
        options.permit?.release();
        return transportReply('unexpected-error', redact(errorChain(error), encoded.push.notification));
      } finally {
        underWay -= 1;
        if (underWay === 0) onIdle();
      }
    },
    async connect() {
      if (!isClosed) await Promise.all([credential.current() ?? credential.obtain(), sender.connect()]);
    },
    reach: () => (isClosed ? [] : [sender.reach(), credential.reach?.()].filter((found) => found !== undefined)),
    abort() {
      for (const resolve of waiting) resolve(transportReply('cancelled'));
      sender.abort();
    },
    close: () => (closing ??= close()),
  };
}

function reserved(found: Permit | Unsent): Reserved {
  return 'release' in found ? { kind: 'permit', permit: found } : { kind: 'none', reply: lostReply(found, undefined) };
}
