import { createECDH, createHash, type ECDH, createDecipheriv, hkdfSync } from 'node:crypto';

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

const SALT_BYTES = 16;
const TAG_BYTES = 16;
/** Salt, record size (4 bytes), length of the key (1 byte); then the sender's public key. */
const HEADER_BYTES = SALT_BYTES + 4 + 1;
const KEY_BYTES = 65;
/** Comes before the padding of the last record. */
const DELIMITER = 2;

/**
 * A push as its browser decrypts it: RFC 8291, written by hand from the RFC, so that a mistake of the sender's library is found.
 * One record only, as section 4 asks of a push.
 *
 * @throws Error if it cannot be decrypted
 */
export function decryptPush(body: Buffer, { pair, auth }: BrowserKeys): Buffer {
  const salt = body.subarray(0, SALT_BYTES);
  const recordSize = body.length < HEADER_BYTES ? 0 : body.readUInt32BE(SALT_BYTES);
  const sender = body.subarray(HEADER_BYTES, HEADER_BYTES + KEY_BYTES);
  const record = body.subarray(HEADER_BYTES + KEY_BYTES);
  if (body[HEADER_BYTES - 1] !== KEY_BYTES || record.length <= TAG_BYTES || record.length > recordSize) {
    throw new Error('expected the header of RFC 8188 with a public key, and one record');
  }
  const shared = pair.computeSecret(sender);
  const info = Buffer.concat([Buffer.from('WebPush: info\0'), pair.getPublicKey(), sender]);
  const secret = hkdf(shared, auth, info, 32);
  const key = hkdf(secret, salt, Buffer.from('Content-Encoding: aes128gcm\0'), 16);
  const nonce = hkdf(secret, salt, Buffer.from('Content-Encoding: nonce\0'), 12);
  const cipher = createDecipheriv('aes-128-gcm', key, nonce).setAuthTag(record.subarray(-TAG_BYTES));
  const padded = Buffer.concat([cipher.update(record.subarray(0, -TAG_BYTES)), cipher.final()]);
  const end = padded.findLastIndex((byte) => byte !== 0);
  if (padded[end] !== DELIMITER) throw new Error('expected the delimiter of the last record');
  return padded.subarray(0, end);
}

function hkdf(secret: Buffer, salt: Buffer, info: Buffer, bytes: number): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, salt, info, bytes));
}
