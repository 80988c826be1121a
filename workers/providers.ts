import type { Config } from '../src/config/config.ts';
import { PLATFORMS, type Platform } from '../src/domain/notification.ts';
import type { Provider } from '../src/providers/provider.ts';
import { PROVIDERS, type OptionsOf } from '../src/providers/registry.ts';

/** The platforms that have credentials; the others are off. */
export function createProviders({ providers: configs }: Pick<Config, 'providers'>): Map<Platform, Provider> {
  const providers = new Map<Platform, Provider>();
  for (const platform of PLATFORMS) {
    const options = configs[platform];
    if (options !== undefined) providers.set(platform, createProvider(platform, options));
  }
  return providers;
}

function createProvider<P extends Platform>(platform: P, options: OptionsOf<P>): Provider {
  return PROVIDERS[platform].create(options);
}
