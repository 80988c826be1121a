/** Loaded before a worker: at SIGUSR2, a rejection that nobody catches, as Redis's client makes them. */
process.once('SIGUSR2', () => {
  const { MARKED: secret = '' } = process.env;
  const error = Object.assign(new Error('ERR unknown command `XADD`, with args beginning with: `' + secret + '`'), {
    name: 'ReplyError',
    command: { name: 'xadd', args: ['token', secret] },
  });
  void Promise.reject(error);
});
