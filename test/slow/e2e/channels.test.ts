import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { addToken } from '../../../api/tokens.ts';
import { judge } from '../../../sandbox/judge.ts';
import { createProducer } from '../../../src/producer/producer.ts';
import { startProcess } from '../../support/process.ts';
import { runProgram, temporaryFolder } from '../../support/program.ts';
import { makeTraced } from '../../support/push.ts';
import { openRealBench } from '../../support/real-bench.ts';
import { testTarget } from '../../support/redis.ts';

const ID = 'teacher-42';
const [GAP_MS, MAX, WINDOW_MS] = [300, 5, 3_000];
/** Where slots are closer than the gap, or more than the window allows: the times between them. */
function broken(all: readonly { readonly at: number }[]): object[] {
  const sorted = all.map(({ at }) => at).toSorted((a, b) => a - b);
  return sorted.flatMap((at, index) =>
    [
      { ms: GAP_MS, before: sorted[index - 1] ?? -Infinity },
      { ms: WINDOW_MS, before: sorted[index - MAX] ?? -Infinity },
    ].flatMap(({ ms, before }) => (at - before >= ms ? [] : [{ at, ms, before }])),
  );
}

it('push by workers and e-mail by programs in Python, at several APIs: together they keep the limits of the person', async () => {
  const bench = await openRealBench();
  const folder = await temporaryFolder();
  const limits = join(folder, 'limits.json');
  await writeFile(limits, JSON.stringify({ categories: { email: { rules: '1/500ms' } } }));
  const own = { LIMIT_RULES: `${MAX}/${WINDOW_MS}ms,1000/1h`, LIMIT_MIN_GAP: `${GAP_MS}ms`, LIMITS_FILE: limits };
  for (let workers = 0; workers < 2; workers++) await bench.startWorker(own);
  const tokensFile = join(folder, 'tokens.json');
  const secret = await addToken(tokensFile, { name: 'mailer', scopes: ['limit', 'read'] });
  const env = { ...bench.env, API_PORT: '0', API_TOKENS_FILE: tokensFile };
  const urls: string[] = [];
  for (let apis = 0; apis < 2; apis++) {
    const api = startProcess({ args: ['api/api.ts'], env });
    const line = JSON.parse(await api.waitForLine(/"msg":"the API is ready"/)) as { readonly url: string };
    urls.push(line.url);
  }

  const producer = createProducer({ ...testTarget(), prefix: bench.prefix });
  onTestFinished(() => producer.close());
  const alerts = 12;
  const enqueued = (async () => {
    for (let count = 0; count < alerts; count++) {
      await producer.enqueue(makeTraced({ recipientId: ID }));
      await sleep(500);
    }
  })();
  const mailers = await Promise.all(
    [0, 1, 2].map(async (number) => {
      const ids = Array.from({ length: 4 }, (_each, index) => `email-${number}-${index}`);
      const at = [`PUSHPACER_URL=${urls[number % 2]}`, `PUSHPACER_TOKEN=${secret}`];
      const stdout = await runProgram('env', [...at, 'python3', 'examples/email-slots.py', ID, ...ids], '.');
      return stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as { readonly id: string; readonly at: number; readonly sentAt: number });
    }),
  );
  await enqueued;
  await bench.completed(alerts);

  const emails = mailers.flat();
  expect(emails.map(({ id }) => id)).toHaveLength(12);
  // The slots of all, as the limiter has them for the longest window: exactly within the limits.
  const headers = { authorization: `Bearer ${secret}` };
  const look = (await (await fetch(`${urls[0]}/v1/recipients/${ID}`, { headers })).json()) as {
    sent: { at: number }[];
  };
  const all = look.sent.map(({ at }) => at);
  expect(all).toHaveLength(alerts + emails.length);
  expect(broken(look.sent)).toEqual([]);
  for (const { at, sentAt } of emails) {
    expect(all).toContain(at);
    expect(sentAt).toBeGreaterThanOrEqual(at - 5);
  }
  // The slots of the e-mails keep the limits of their own channel, too.
  const slots = emails.map(({ at }) => at).toSorted((a, b) => a - b);
  expect(slots.filter((at, index) => index > 0 && at - (slots[index - 1] ?? 0) < 500)).toEqual([]);
  // What the person got, as the providers and the mailers saw it.
  const got = [
    ...emails.map(({ id, at, sentAt }) => ({ notificationId: id, device: 'mail', at: sentAt, delayMs: sentAt - at })),
    ...bench.accepted().map(({ data, token: device, at, delayMs }) => {
      return { notificationId: data['ref'] ?? '', device, at, delayMs };
    }),
  ].map((each) => ({ ...each, recipientId: ID }));
  expect(got).toHaveLength(alerts + 12);
  const policy = { rules: [{ max: MAX, perMs: WINDOW_MS }], minGapMs: GAP_MS };
  expect(judge(got, policy)).toMatchObject({ gapViolations: 0, windowViolations: 0, duplicates: 0 });
  // They took turns: some e-mail came between two alerts.
  const pushes = bench.accepted().map(({ at }) => at);
  expect(slots.filter((at) => at > Math.min(...pushes) && at < Math.max(...pushes)).length).toBeGreaterThan(2);
}, 180_000);
