/** The part of http_ece that this project uses; the package has no types. */
declare module 'http_ece' {
  import type { ECDH } from 'node:crypto';

  export interface EncryptOptions {
    readonly version: 'aes128gcm';
    /** The sender's key pair, on P-256; its public key goes into the header of the result. */
    readonly privateKey: ECDH;
    /** The browser's public key (`p256dh`): base64url. */
    readonly dh: string;
    /** The browser's secret (`auth`): base64url. */
    readonly authSecret: string;
    /** 16 bytes as base64url. Default: random. */
    readonly salt?: string;
  }

  /** Header and records of RFC 8188, with the keys of RFC 8291. Throws if the public key is no point on the curve. */
  export function encrypt(plain: Buffer, options: EncryptOptions): Buffer;
}
