import type { ClientRequest } from 'node:http';
import type { Socket } from 'node:net';

/** As Node's Agent calls it: its types do not know that there may be an error in place of a connection. */
type TakeSocket = (socket: Socket | null, error?: Error) => void;

/**
 * A request that is given a connection in its handshake is written when that is over, and nobody looks then. With this
 * it gets its connection afterwards only; one that was destroyed meanwhile lets the connection go on to the next one.
 *
 * @param isSecured whether a connection is through with its handshake
 * @param beforeLeaving called at the last moment at which the request can still be destroyed
 */
export function holdUntilSecured(
  request: ClientRequest,
  isSecured: (socket: Socket) => boolean,
  beforeLeaving: () => void,
): void {
  const take = request.onSocket.bind(request) as TakeSocket;
  const takeSecured = (socket: Socket): void => {
    beforeLeaving();
    take(socket);
  };
  const onSocket: TakeSocket = (socket, error) => {
    if (socket === null || error !== undefined) take(socket, error);
    else if (isSecured(socket)) takeSecured(socket);
    else if (socket.destroyed) take(null, closed());
    else {
      let failure = closed();
      const onError = (reason: Error): void => {
        failure = reason;
      };
      const onClose = (): void => {
        take(null, failure); // of a connection that is given, Node expects that it has told its errors itself
      };
      socket
        .once('error', onError)
        .once('close', onClose)
        .once('secureConnect', () => {
          socket.off('error', onError).off('close', onClose);
          takeSecured(socket);
        });
    }
  };
  request.onSocket = onSocket;
}

function closed(): Error {
  return Object.assign(new Error('the connection was closed'), { code: 'ECONNRESET' });
}
