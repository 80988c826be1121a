import { once } from 'node:events';
import { mkdir } from 'node:fs/promises';
import { startEmbeddedRedis } from '../sandbox/redis/embedded-redis.ts';
import { CommandError, createCommand, printJson, runCommand, integer } from '../src/terminal/command.ts';

interface Flags {
  readonly port?: number;
  readonly hz: number;
  readonly dir?: string;
  readonly json?: true;
}

/** `npm run redis`: an embedded Redis in the foreground, for development. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('redis', 'Runs a Redis on the loopback until it is interrupted, and prints its URL.')
    .option('--port <port>', 'the port to listen on (default: a free one)', integer('--port', 1, 65_535))
    .option('--hz <n>', "turns of the server's loop a second", integer('--hz', 1, 500), 100)
    .option('--dir <folder>', 'keep an append-only file there (default: keep nothing)')
    .option('--json', 'the URL as one JSON object: url, port')
    .action((flags: Flags) => serve(flags));
  await runCommand(command, argv);
}

async function serve({ port, hz, dir, json }: Flags): Promise<void> {
  if (dir !== undefined) await mkdir(dir, { recursive: true });
  const redis = await startEmbeddedRedis({
    say: (line) => process.stderr.write(`${line}\n`),
    install: true,
    hz,
    ...(port === undefined ? {} : { port }),
    ...(dir === undefined ? {} : { dir, appendonly: true }),
  }).catch((error: unknown): never => {
    throw new CommandError(error instanceof Error ? error.message : String(error));
  });
  // Listened for before the address is printed: who reads it may send the signal at once.
  const asked = Promise.race([once(process, 'SIGINT'), once(process, 'SIGTERM')]).then(() => true);
  if (json) printJson({ url: redis.url, port: redis.port });
  else process.stdout.write(`REDIS_URL=${redis.url}\n`);
  const wasAsked = await Promise.race([asked, redis.ended.then(() => false)]);
  await redis.close();
  if (!wasAsked) throw new CommandError('the Redis server ended by itself');
}

if (import.meta.main) await main(process.argv.slice(2));
