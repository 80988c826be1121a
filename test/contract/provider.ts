import { describe } from 'vitest';
import { answers } from './provider-answers.ts';
import { endings } from './provider-endings.ts';
import { permits } from './provider-permits.ts';
import { transport } from './provider-transport.ts';
import type { ProviderSubject } from './provider-subject.ts';

/** What every provider promises, whatever its protocol is: src/providers/provider.ts. */
export function providerContract(name: string, subject: ProviderSubject): void {
  describe(`${name} as a provider`, () => {
    answers(subject);
    transport(subject);
    permits(subject);
    endings(subject);
  });
}
