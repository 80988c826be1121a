import type { z } from 'zod';
import type { Fault } from '../domain/faults.ts';
import type { Rule } from '../domain/limits.ts';
import { PLATFORMS, type Platform } from '../domain/notification.ts';
import { reporter } from '../environment/files.ts';
import { rules, type Environment } from '../environment/values.ts';
import { PROVIDERS, type OptionsOf } from '../providers/registry.ts';

/** The options of each provider; an absent platform is off. */
export type ProviderConfigs = { readonly [P in Platform]?: OptionsOf<P> };
/** The quota of each provider, which all workers share; absent: no bound. */
export type QuotaConfigs = { readonly [P in Platform]?: readonly Rule[] };

/**
 * A quota stores a number for each bucket of time, not an entry for each send, so it may be larger than a recipient's rule.
 * At most an hour, since a notification that finds no room may have to wait for that long.
 */
const LARGEST_QUOTA: Rule = { max: 1_000_000_000, perMs: 3_600_000 };

/** The variables of all providers, in the README's order: those of each provider, then its quota. */
export function providerVariables(): Readonly<Record<string, z.ZodType>> {
  const variables: Record<string, z.ZodType> = {};
  for (const platform of PLATFORMS) {
    const { settings } = PROVIDERS[platform];
    const { variable, meaning } = settings.quota;
    Object.assign(variables, settings.variables.shape, { [variable]: quotaSchema(variable).describe(meaning) });
  }
  return variables;
}

/** Variables of the providers whose value an error must not repeat. */
export const PROVIDER_SECRETS: readonly string[] = PLATFORMS.flatMap(
  (platform) => PROVIDERS[platform].settings.secrets,
);

/** The options of each provider, from variables that are well-formed, and the platforms whose variables have faults. */
export function readProviders(
  given: Environment,
  faults: Fault[],
): { readonly providers: ProviderConfigs; readonly faulty: ReadonlySet<string> } {
  const faulty = new Set<string>();
  const report = reporter(faults);
  const read = PLATFORMS.map((platform) => {
    const before = faults.length;
    const options = PROVIDERS[platform].settings.read(given, report, 'environment');
    if (faults.length > before) faulty.add(platform);
    return [platform, options] as const;
  });
  return { providers: Object.fromEntries(read.filter(([, options]) => options !== undefined)), faulty };
}

/** The quotas that are given, from variables that are well-formed. */
export function readQuotas(given: Environment): QuotaConfigs {
  const quotas: { [P in Platform]?: readonly Rule[] } = {};
  for (const platform of PLATFORMS) {
    const { variable } = PROVIDERS[platform].settings.quota;
    const quota = quotaSchema(variable).parse(given[variable]);
    if (quota !== undefined) quotas[platform] = quota;
  }
  return quotas;
}

/** @param variable its name, for the faults */
export function quotaSchema(variable: string) {
  return rules(variable, LARGEST_QUOTA).optional();
}
