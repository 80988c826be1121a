import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls';
import { InputError } from '../../domain/faults.ts';

/** Where a push service listens. */
export interface Endpoint {
  /** A name or an address, without the brackets of an IPv6 address. */
  readonly host: string;
  readonly port: number;
}

/** `{ host: '::1', port: 443 }` → `[::1]:443` */
export function addressOfEndpoint({ host, port }: Endpoint): string {
  return `${host.includes(':') ? `[${host}]` : host}:${port}`;
}

/** `https://api.push.apple.com` → host and port (443 where none is named); throws an InputError that names `path`. */
export function parseEndpoint(text: string, path: string): Endpoint {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url?.protocol !== 'https:' || url.pathname !== '/' || url.search !== '' || url.username !== '') {
    const expected = 'an address such as https://api.push.apple.com, without a path';
    // The bad address may contain a password, so the error shows only its length.
    throw new InputError('endpoint', [{ path, expected, found: `a string of ${text.length} characters` }]);
  }
  return { host: url.hostname.replace(/^\[(.*)\]$/, '$1'), port: url.port === '' ? 443 : Number(url.port) };
}

/**
 * TLS settings that trust one more CA. Made once, because reading 150 certificates for each connection takes longer than the
 * handshake. `undefined` if there is no CA to add.
 */
export function trustBeside(ca: string | undefined): SecureContext | undefined {
  if (ca === undefined) return undefined;
  if (latest?.ca !== ca) latest = { ca, context: createSecureContext({ ca: [...getCACertificates('default'), ca] }) };
  return latest.context;
}

/** Many apps trust the same CA. */
let latest: { readonly ca: string; readonly context: SecureContext } | undefined;
