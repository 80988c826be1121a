import type { IncomingHttpHeaders, ServerHttp2Stream } from 'node:http2';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { parseNotification } from '../../src/domain/notification.ts';
import { ca, openServer } from '../providers/h2-server.ts';
import { cases } from '../support/cases.ts';
import { openApns, openFcm, openSandbox, openWebpush, sendPush } from '../support/providers.ts';
import { notifications, NOW_MS } from './notifications.ts';
import { preparedFaults, pushesOf, requestFaults, type Providers } from './prepared.ts';

const SEED = 8_030;
const RUNS = cases(5_000);
const SENT = 100;

async function openProviders(now = () => NOW_MS): Promise<Providers> {
  const sandbox = await openSandbox();
  return {
    apns: await openApns(sandbox, { now }),
    fcm: await openFcm(sandbox, { now }),
    webpush: await openWebpush(sandbox, { now }),
  };
}

test(`${RUNS} notifications become requests that the providers take, loud, silent and as digests`, async () => {
  const providers = await openProviders();
  const counts = { accepted: 0, refused: 0, requests: 0, tooLarge: 0 };
  fc.assert(
    fc.property(notifications(), (raw) => {
      const parsed = parseNotification(raw);
      counts[parsed.ok ? 'accepted' : 'refused'] += 1;
      if (!parsed.ok) {
        fc.pre(false); // another one takes its place
        return;
      }
      for (const push of pushesOf(parsed.notification)) {
        const faults = preparedFaults(push, providers);
        counts[faults === undefined ? 'tooLarge' : 'requests'] += 1;
        expect(faults ?? []).toEqual([]);
      }
    }),
    { seed: SEED, numRuns: RUNS, maxSkipsPerRun: 1 },
  );
  expect(counts.accepted).toBeGreaterThanOrEqual(RUNS);
  expect(counts.refused).toBeLessThan(RUNS / 2);
  expect(counts.requests).toBeGreaterThan(2 * RUNS);
  expect(counts.tooLarge).toBeGreaterThan(0);
}, 300_000);

/** A request as the server got it. */
interface Got {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** Answers as each provider would. */
const ANSWERS = { apns: [200, ''], fcm: [200, '{"name":"projects/p/messages/1"}'], webpush: [201, ''] } as const;

test(`${SENT} notifications arrive at a server as requests that the providers take`, async () => {
  const got: Got[] = [];
  let answer: (typeof ANSWERS)[keyof typeof ANSWERS] = ANSWERS.apns;
  const server = await openServer((stream: ServerHttp2Stream, headers) => {
    const chunks: Buffer[] = [];
    stream.on('data', (chunk: Buffer) => chunks.push(chunk));
    stream.on('end', () => {
      got.push({ path: headers[':path'] ?? '', headers, body: Buffer.concat(chunks) });
      stream.respond({ ':status': answer[0] });
      stream.end(answer[1]);
    });
  });
  const sandbox = await openSandbox();
  const at = { endpoint: server.url, ca };
  const providers: Providers = {
    apns: await openApns(sandbox, at),
    fcm: await openFcm(sandbox, at),
    webpush: await openWebpush(sandbox, { origins: [server.url], ca }),
  };
  const sample = fc.sample(notifications(server.url), { seed: SEED, numRuns: 2 * SENT }).flatMap((raw) => {
    const parsed = parseNotification(raw);
    return parsed.ok ? [parsed.notification] : [];
  });
  expect(sample.length).toBeGreaterThanOrEqual(SENT);
  let sent = 0;
  for (const push of sample.slice(0, SENT).flatMap(pushesOf)) {
    answer = ANSWERS[push.device.platform];
    const reply = await sendPush(providers[push.device.platform], push);
    const request = got.pop();
    if (request === undefined) {
      expect(reply).toMatchObject({ meaning: 'rejected', code: expect.stringMatching(/too-?large/i) as string });
      continue;
    }
    sent += 1;
    expect(reply).toMatchObject({ meaning: 'accepted' });
    expect(request.headers[':method']).toBe('POST');
    expect(request.headers.authorization).toBeDefined();
    expect(requestFaults(push, request, Date.now())).toEqual([]);
  }
  expect(got).toEqual([]);
  expect(sent).toBeGreaterThan(SENT);
});
