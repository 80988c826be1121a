import { createHttp1Sender } from './http1-sender.ts';
import { NO_HTTP2, type SendResult, type Unsent } from './result.ts';
import { createSender, type Sender, type SenderOptions } from './sender.ts';

/**
 * HTTP/2, or HTTP/1.1 if that is all that the server speaks: the server chooses in the TLS handshake (ALPN, RFC 7301), and the
 * first connection that ends with `no-http2` decides for as long as this sender lives.
 */
export function createNegotiatedSender(options: SenderOptions): Sender {
  const http2 = createSender({ ...options, offersHttp1: true });
  let http1: Sender | undefined;
  let isClosed = false;
  /** The first one closes at once, since its pool would go on trying to connect. */
  const closing: Promise<void>[] = [];

  function fallBack(): Sender {
    if (http1 !== undefined) return http1;
    closing.push(http2.close());
    return (http1 = createHttp1Sender(options));
  }

  const current = (): Sender => http1 ?? http2;
  const isWithoutHttp2 = (result: SendResult | Unsent | object): boolean =>
    !isClosed && 'code' in result && result.code === 'no-http2';

  return {
    reserve() {
      const found = current().reserve();
      if (!(found instanceof Promise)) return found;
      return found.then((answer) => (isWithoutHttp2(answer) ? fallBack().reserve() : answer));
    },
    async send(request, when = {}) {
      const result = await current().send(request, when);
      if (!isWithoutHttp2(result)) return result;
      return fallBack().send(request, { ...when, permit: undefined });
    },
    connect: () => current().connect(),
    reach() {
      const found = current().reach();
      return found?.failure?.cause === NO_HTTP2 ? undefined : found; // it was reached, and HTTP/1.1 comes next
    },
    abort() {
      current().abort();
    },
    async close() {
      isClosed = true;
      await Promise.all([current().close(), ...closing]);
    },
  };
}
