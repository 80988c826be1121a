import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { tokenOf } from '../../src/notification/device.ts';
import type { Platform } from '../../src/notification/notification.ts';
import type { Reply, SendOptions } from '../../src/providers/provider.ts';
import type { Answer } from '../../sandbox/loopback/answers.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { openSandbox, sendPush } from '../support/providers.ts';
import { withoutDetail } from './provider-answers.ts';
import { openProvider, pushTo, type ProviderTuning } from './provider-subject.ts';

const UNSENT = { meaning: 'later', alerted: 'no', unsent: true } as const;
const NO_CONNECTION = { ...UNSENT, suspect: 'outage' } as const;
const GIVEN_UP = { meaning: 'later', alerted: 'maybe', ambiguous: true } as const;
const NO_ANSWER = { ...GIVEN_UP, suspect: 'outage' } as const;

/** How each is brought about. `requests`: how many reach the server. */
interface Fault {
  readonly name: string;
  readonly code: string;
  readonly expected: Omit<Reply, 'code'>;
  readonly requests: number;
  readonly tuning?: ProviderTuning;
  readonly answers?: readonly Answer[];
  readonly sendInMs?: number;
  /** Why the server cannot be reached; undefined if it can, or if that is not known. */
  readonly cause?: string;
  readonly before?: (sandbox: Sandbox) => Promise<void> | void;
}

/** Whatever happens on the way, a send comes to a reply, is one request, and says whether it may have alerted. */
export function transport(platform: Platform): void {
  const open = (sandbox: Sandbox, tuning?: ProviderTuning) => openProvider(platform, sandbox, tuning);
  const refused: Answer = { kind: 'reset', scope: 'refused-stream' };
  const faults: readonly Fault[] = [
    {
      name: 'nobody listens',
      code: 'connection-refused',
      cause: 'ECONNREFUSED',
      expected: NO_CONNECTION,
      requests: 0,
      before: (sandbox) => sandbox[platform].down(),
    },
    {
      name: 'a host that does not exist',
      code: 'host-not-found',
      cause: 'ENOTFOUND',
      expected: NO_CONNECTION,
      requests: 0,
      tuning: { endpoint: 'https://push.invalid' },
    },
    {
      name: 'a certificate that nobody trusts',
      code: 'tls-failed',
      cause: 'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
      expected: NO_CONNECTION,
      requests: 0,
      tuning: { ca: undefined },
    },
    {
      name: 'a certificate of another name',
      code: 'tls-failed',
      cause: 'ERR_TLS_CERT_ALTNAME_INVALID',
      expected: NO_CONNECTION,
      requests: 0,
      before: (sandbox) => sandbox.spoilCertificate(platform, 'wrong-name'),
    },
    {
      name: 'a handshake that is not answered',
      code: 'connect-timeout',
      cause: 'ETIMEDOUT',
      expected: NO_CONNECTION,
      requests: 0,
      tuning: { connectTimeoutMs: 200 },
      before: (sandbox) => sandbox[platform].slowHandshakes(60_000),
    },
    {
      name: 'no stream is free in time',
      code: 'no-stream',
      expected: UNSENT,
      requests: 0,
      sendInMs: 100,
      before: (sandbox) => sandbox[platform].slowHandshakes(2_000),
    },
    { name: 'a slot that is over', code: 'too-late', expected: UNSENT, requests: 0, sendInMs: -1 },
    {
      name: 'a stream that is refused, four times',
      code: 'refused-stream',
      expected: UNSENT,
      requests: 4,
      answers: Array.from({ length: 9 }, () => refused),
    },
    {
      name: 'an answer that never comes',
      code: 'timeout',
      expected: NO_ANSWER,
      requests: 1,
      tuning: { requestTimeoutMs: 300 },
      answers: [{ kind: 'hang' }],
    },
    {
      name: 'a connection that is reset',
      code: 'reset',
      expected: NO_ANSWER,
      requests: 1,
      answers: [{ kind: 'reset' }],
    },
    {
      name: 'a connection that is reset once it was taken',
      code: 'reset',
      expected: NO_ANSWER,
      requests: 1,
      answers: [{ kind: 'reset', accepted: true }],
    },
    {
      name: 'a stream that ends without an answer',
      code: 'reset',
      expected: NO_ANSWER,
      requests: 1,
      answers: [{ kind: 'reset', scope: 'stream' }],
    },
    {
      name: 'a connection that is cut off in the middle of the request',
      code: 'reset',
      expected: NO_ANSWER,
      requests: 1,
      before: (sandbox) => sandbox[platform].cutRequests(1),
    },
  ];

  describe('without an answer', () => {
    test.each(faults)('$name: $code', async (fault) => {
      const { code, expected, requests, tuning, answers = [], sendInMs, before, cause } = fault;
      const sandbox = await openSandbox();
      const provider = open(sandbox, tuning);
      await before?.(sandbox);
      const push = pushTo(sandbox, { platform, endpoint: tuning?.endpoint });
      sandbox[platform].script(tokenOf(push.device), answers);
      const options: SendOptions = sendInMs === undefined ? {} : { sendBy: performance.now() + sendInMs };
      expect(withoutDetail(await sendPush(provider, push, options))).toEqual({ ...expected, code });
      expect(sandbox[platform].counts.requests).toBe(requests);
      const causes = provider.reach().map(({ failure }) => failure?.cause);
      if (cause !== undefined) expect(causes).toEqual([cause]);
      else expect(causes.filter((each) => each !== undefined)).toEqual([]);
    });

    test('it knows for how long its server cannot be reached, and when it is reached again', async () => {
      const sandbox = await openSandbox();
      const provider = open(sandbox, { random: () => 0 });
      expect(provider.reach()).toEqual([]); // nobody has tried
      await sandbox[platform].down();
      const { host } = new URL(sandbox[platform].url);
      const send = () => sendPush(provider, pushTo(sandbox, { platform }));
      await send();
      const [first] = provider.reach();
      expect(first).toMatchObject({ host, failure: { cause: 'ECONNREFUSED' } });
      await sleep(700); // and it is tried again meanwhile
      await send();
      const [later] = provider.reach();
      expect((later?.failure?.forMs ?? 0) - (first?.failure?.forMs ?? 0)).toBeGreaterThan(650);
      expect(later?.server).toBe(platform === 'webpush' ? host : undefined);
      await sandbox[platform].up();
      await expect.poll(async () => (await send()).meaning, { timeout: 15_000 }).toBe('accepted');
      expect(provider.reach()).toEqual([{ host, ...(platform === 'webpush' && { server: host }) }]);
      await provider.close();
      expect(provider.reach()).toEqual([]);
    });
  });
}
