import { Socket } from 'node:net';

// For `--import`: sends the process KILL_SIGNAL, KILL_TIMES times, while its KILL_AFTER-th call of a script is under way to Redis,
// however fast the process is.

const { KILL_AFTER, KILL_SIGNAL, KILL_TIMES } = process.env;
let left = Number(KILL_AFTER);
// eslint-disable-next-line @typescript-eslint/unbound-method -- called with the socket below
const { write } = Socket.prototype;

const killItself = (): void => {
  for (let sent = 0; sent < Number(KILL_TIMES); sent++) process.kill(process.pid, KILL_SIGNAL);
};

Socket.prototype.write = function (this: Socket, ...args: Parameters<typeof write>) {
  const isWritten = write.apply(this, args);
  const calls = String(args[0]).split('\r\nevalsha\r\n').length - 1;
  // The client writes all commands of one turn of the event loop together, at its end.
  if (left > 0 && calls >= left) setImmediate(killItself);
  left -= calls;
  return isWritten;
} as typeof write;
