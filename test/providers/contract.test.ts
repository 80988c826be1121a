import { describe } from 'vitest';
import { PLATFORMS } from '../../src/notification/notification.ts';
import { answers } from '../contract/provider-answers.ts';
import { endings, permits } from '../contract/provider-endings.ts';
import { transport } from '../contract/provider-transport.ts';

/** What every provider promises, whatever its protocol is: src/providers/provider.ts. */
describe.each(PLATFORMS)('%s as a provider', (platform) => {
  answers(platform);
  transport(platform);
  permits(platform);
  endings(platform);
});
