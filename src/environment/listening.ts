import { faultOf, InputError, type Fault } from '../domain/faults.ts';

/** Where a server is to listen; each part with the variable or the flag that sets it. */
export interface ListenAt {
  readonly host: readonly [name: string, value: string];
  readonly port: readonly [name: string, value: number];
}

/** The system's error if a server cannot listen, as an InputError that names the variable. Any other error stays as it is. */
export function listenError(error: unknown, { host, port }: ListenAt): unknown {
  const fault = faultBy((error as NodeJS.ErrnoException).code, host, port);
  return fault === undefined ? error : new InputError('cannot listen', [fault]);
}

function faultBy(code: string | undefined, host: ListenAt['host'], port: ListenAt['port']): Fault | undefined {
  switch (code) {
    case 'EADDRINUSE':
      return faultOf(port[0], `a port that no other program uses on ${host[1]}`, port[1]);
    case 'EACCES':
      return faultOf(port[0], 'a port that this user may listen on', port[1]);
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
    case 'EINVAL':
      return faultOf(host[0], 'an address or a name of this machine', host[1]);
    default:
      return undefined;
  }
}
