import { Socket } from 'node:net';

// For `--import`: the process stops (SIGSTOP) when Redis has answered its first call that contains STOP_AT, just before it reads
// that answer. A signal of another process comes too early or too late for that. And if an answer comes while the process is
// stopped, its timers run first when it goes on, so its client of Redis gives that answer up.

const { STOP_AT = '' } = process.env;
let isDone = false;
// eslint-disable-next-line @typescript-eslint/unbound-method -- called with the socket below
const { write } = Socket.prototype;

Socket.prototype.write = function (this: Socket, ...args: Parameters<typeof write>) {
  if (!isDone && String(args[0]).includes(STOP_AT)) {
    this.prependOnceListener('data', (answer: Buffer) => {
      if (isDone || answer.includes('NOSCRIPT')) return; // the client sends the script itself then
      isDone = true;
      process.kill(process.pid, 'SIGSTOP');
    });
  }
  return write.apply(this, args);
} as typeof write;
