import { Socket } from 'node:net';

// For `--import`: sends the process KILL_SIGNAL while its KILL_AFTER-th call of a script is under way to Redis, however fast the
// process is; KILL_TIMES times in all, 100 ms apart.

const { KILL_AFTER, KILL_SIGNAL, KILL_TIMES } = process.env;
let left = Number(KILL_AFTER);
// eslint-disable-next-line @typescript-eslint/unbound-method -- called with the socket below
const { write } = Socket.prototype;

const killItself = (): void => {
  const kill = (): void => void process.kill(process.pid, KILL_SIGNAL);
  kill();
  for (let sent = 1; sent < Number(KILL_TIMES); sent++) setTimeout(kill, 100 * sent);
};

Socket.prototype.write = function (this: Socket, ...args: Parameters<typeof write>) {
  const isWritten = write.apply(this, args);
  const calls = String(args[0]).split('\r\nevalsha\r\n').length - 1;
  // The client writes all commands of one turn of the event loop together, at its end.
  if (left > 0 && calls >= left) setImmediate(killItself);
  left -= calls;
  return isWritten;
} as typeof write;
