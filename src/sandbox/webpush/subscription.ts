import { createECDH, createHash, type ECDH } from 'node:crypto';

/** What a browser's `PushSubscription.toJSON()` gives. */
export interface SandboxSubscription {
  /** `https://127.0.0.1:41875/push/ana` */
  readonly endpoint: string;
  /** What pushes to it are encrypted with. */
  readonly keys: {
    /** The public key: 87 characters of base64url. */
    readonly p256dh: string;
    /** The secret: 22 characters of base64url. */
    readonly auth: string;
  };
}

/** The keys of a pretended browser. */
export interface BrowserKeys {
  readonly pair: ECDH;
  readonly auth: Buffer;
}

/** Where the endpoints of the loopback push service lie: `/push/<name>`. */
export const ENDPOINT_PATH = /^\/push\/([A-Za-z0-9_-]{1,256})$/;

/**
 * The subscription of a pretended browser at a loopback push service. Its keys come from its name, so that every process can
 * make it and the server can decrypt for it: the keys protect nothing.
 *
 * @param url the server's `https://127.0.0.1:41873`
 * @param name 1 to 256 of `A-Z a-z 0-9 _ -`
 */
export function sandboxSubscription(url: string, name: string): SandboxSubscription {
  const { pair, auth } = browserKeys(name);
  return {
    endpoint: `${url}/push/${name}`,
    keys: { p256dh: pair.getPublicKey('base64url'), auth: auth.toString('base64url') },
  };
}

export function browserKeys(name: string): BrowserKeys {
  const pair = createECDH('prime256v1');
  pair.setPrivateKey(hashOf(`key ${name}`)); // 32 bytes by chance are a valid key, but for one in 2^32
  return { pair, auth: hashOf(`auth ${name}`).subarray(0, 16) };
}

function hashOf(text: string): Buffer {
  return createHash('sha256').update(`pushpacer sandbox ${text}`).digest();
}
