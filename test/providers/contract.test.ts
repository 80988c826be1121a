import { PLATFORMS, type Platform } from '../../src/domain/notification.ts';
import { PROVIDERS } from '../../src/providers/registry.ts';
import { openProvider } from '../contract/open-provider.ts';
import { providerContract } from '../contract/provider.ts';
import { APNS_ANSWERS, FCM_ANSWERS, WEBPUSH_ANSWERS, type Answers } from './rows.ts';

/** What is expected of each provider's answers: one without does not compile, and does not run. */
const EXPECTED = { apns: APNS_ANSWERS, fcm: FCM_ANSWERS, webpush: WEBPUSH_ANSWERS } satisfies Readonly<
  Record<Platform, Answers>
>;

for (const platform of PLATFORMS) {
  const { name, answers } = PROVIDERS[platform];
  providerContract(name, {
    platform,
    open: (sandbox, tuning) => openProvider(platform, sandbox, tuning),
    ...EXPECTED[platform],
    table: Object.keys(answers.words),
    accepted: answers.accepted,
    readsBodies: platform !== 'webpush', // RFC 8030 says nothing of a body
    connectsAhead: platform !== 'webpush', // which push services there are, only the devices say
  });
}
