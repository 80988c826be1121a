import { expect, test } from 'vitest';
import type { Provider, Push } from '../../src/providers/provider.ts';
import { openApns, openFcm, openSandbox, sendPush } from '../support/providers.ts';
import { makePush } from '../support/push.ts';

const LIMIT = 4_096;

/** The texts that fill a payload to the last byte: of one byte a character, and of several. */
const FILLINGS = { ASCII: 'x', 'two bytes': 'é', 'three bytes': '教', 'four bytes': '👩' };

const APNS_FRAME = Buffer.byteLength(JSON.stringify({ aps: { alert: { body: '' } } }));

/** A body that makes a payload of exactly so many bytes, of which the rest takes `frame`. */
function bodyFor(bytes: number, frame: number, filling: string): string {
  const room = bytes - frame;
  const size = Buffer.byteLength(filling);
  return filling.repeat(Math.floor(room / size)) + 'x'.repeat(room % size);
}

const fcmFrame = (tag: string): number => Buffer.byteLength(`bodytag${tag}`);

interface Case {
  readonly platform: 'apns' | 'fcm';
  readonly frame: (push: Push) => number;
  readonly code: string;
}

const CASES: readonly Case[] = [
  { platform: 'apns', frame: () => APNS_FRAME, code: 'PayloadTooLarge' },
  { platform: 'fcm', frame: ({ pushId }) => fcmFrame(pushId), code: 'payload-too-large' },
];

async function open(platform: Case['platform']) {
  const sandbox = await openSandbox();
  const provider = platform === 'apns' ? await openApns(sandbox) : await openFcm(sandbox);
  return { sandbox, provider, requests: () => sandbox[platform].counts.requests };
}

function sized({ platform, frame }: Case, bytes: number, filling: string): Push {
  const push = makePush({ platform });
  const body = bodyFor(bytes, frame(push), filling);
  return { ...push, notification: { ...push.notification, alert: { body } } };
}

function refusal(provider: Provider, push: Push) {
  const prepared = provider.prepare(push);
  return prepared.kind === 'refused' ? prepared.reply : undefined;
}

test.each(CASES)('$platform takes a payload of exactly 4,096 bytes, whatever its characters take', async (given) => {
  const { provider } = await open(given.platform);
  for (const filling of Object.values(FILLINGS)) {
    expect(await sendPush(provider, sized(given, LIMIT, filling))).toMatchObject({ meaning: 'accepted' });
  }
});

test.each(CASES)(
  '$platform is not even asked about one byte more: it is rejected here, with both sizes',
  async (given) => {
    const { provider, requests } = await open(given.platform);
    for (const filling of Object.values(FILLINGS)) {
      expect(refusal(provider, sized(given, LIMIT + 1, filling))).toMatchObject({
        meaning: 'rejected',
        alerted: 'no',
        code: given.code,
        detail: `payload: expected at most ${LIMIT} bytes, found ${LIMIT + 1}`,
      });
    }
    expect(requests()).toBe(0);
  },
);
