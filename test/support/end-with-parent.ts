import { Socket } from 'node:net';

/**
 * Loaded before the script of a test's child process (see process.ts). Descriptor 3 is a pipe that only the test has open;
 * it closes when the test's process ends, however it ends, and then this process has no reason to go on.
 */
new Socket({ fd: 3 })
  .on('error', () => undefined)
  .on('close', () => process.kill(process.pid, 'SIGKILL'))
  .resume()
  .unref();
