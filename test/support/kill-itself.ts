import { Socket } from 'node:net';

// For `--import`: kills the process while its KILL_AFTER-th call of a script is under way to Redis, however fast the process is.

const KILL_AFTER = Number(process.env['KILL_AFTER']);
let calls = 0;
// eslint-disable-next-line @typescript-eslint/unbound-method -- called with the socket below
const { write } = Socket.prototype;

Socket.prototype.write = function (this: Socket, ...args: Parameters<typeof write>) {
  const isWritten = write.apply(this, args);
  if (String(args[0]).includes('\r\nevalsha\r\n')) calls += 1;
  // The client writes all commands of one turn of the event loop together, at its end.
  if (calls === KILL_AFTER) setImmediate(() => process.kill(process.pid, 'SIGKILL'));
  return isWritten;
} as typeof write;
