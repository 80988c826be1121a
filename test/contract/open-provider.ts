import { onTestFinished } from 'vitest';
import { formatFault, type Fault } from '../../src/domain/faults.ts';
import type { Platform } from '../../src/domain/notification.ts';
import { reporter } from '../../src/environment/files.ts';
import type { Provider } from '../../src/providers/provider.ts';
import { PROVIDERS, type OptionsOf } from '../../src/providers/registry.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import type { ProviderTuning } from './provider-subject.ts';

/** A provider of the registry, set up as a worker would be by the sandbox's environment; closed when the test ends. */
export function openProvider(platform: Platform, sandbox: Sandbox, tuning: ProviderTuning = {}): Promise<Provider> {
  const faults: Fault[] = [];
  const options = PROVIDERS[platform].settings.read(sandbox.env(), reporter(faults), 'environment');
  if (options === undefined || faults.length > 0) {
    throw new Error(`the sandbox does not configure ${platform}: ${faults.map(formatFault).join('; ')}`);
  }
  const provider = create(platform, { ...options, ...tuning, ...allowed(options, tuning) });
  onTestFinished(() => provider.close());
  return Promise.resolve(provider);
}

/** A provider that learns its servers from the devices has to allow the one that the test takes. */
function allowed(options: object, { endpoint }: ProviderTuning): { readonly origins?: readonly string[] } {
  return 'origins' in options && endpoint !== undefined ? { origins: [endpoint] } : {};
}

function create<P extends Platform>(platform: P, options: OptionsOf<P>): Provider {
  return PROVIDERS[platform].create(options);
}
