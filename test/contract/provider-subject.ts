import { onTestFinished } from 'vitest';
import { formatFault, type Fault } from '../../src/domain/faults.ts';
import type { Platform } from '../../src/notification/notification.ts';
import { reporter } from '../../src/environment/files.ts';
import type { Provider, Push } from '../../src/providers/provider.ts';
import { PROVIDERS, type OptionsOf } from '../../src/providers/registry.ts';
import type { SenderTuning } from '../../src/providers/sender/sender.ts';
import type { Sandbox } from '../../sandbox/sandbox.ts';
import { makePush } from '../support/push.ts';

export interface ProviderTuning extends SenderTuning {
  readonly endpoint?: string;
  readonly ca?: string | undefined;
}

/** A provider of the registry, set up as a worker would be by the sandbox's environment; closed when the test ends. */
export function openProvider(platform: Platform, sandbox: Sandbox, tuning: ProviderTuning = {}): Provider {
  const faults: Fault[] = [];
  const options = PROVIDERS[platform].settings.read(sandbox.env(), reporter(faults), 'environment');
  if (options === undefined || faults.length > 0) {
    throw new Error(`the sandbox does not configure ${platform}: ${faults.map(formatFault).join('; ')}`);
  }
  // A provider that learns its servers from the devices has to allow the one that the test takes.
  const allowed = 'origins' in options && tuning.endpoint !== undefined ? { origins: [tuning.endpoint] } : {};
  const provider = create(platform, { ...options, ...tuning, ...allowed });
  onTestFinished(() => provider.close());
  return provider;
}

function create<P extends Platform>(platform: P, options: OptionsOf<P>): Provider {
  return PROVIDERS[platform].create(options);
}

/** A push to the platform's loopback server, or to another server. */
export function pushTo(
  sandbox: Sandbox,
  {
    platform,
    endpoint,
    ...fields
  }: { platform: Platform; endpoint?: string | undefined; data?: Record<string, string> },
): Push {
  return makePush({ platform, server: endpoint ?? sandbox[platform].url, ...fields });
}
