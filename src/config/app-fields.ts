import { PLATFORMS, type Platform } from '../domain/notification.ts';
import { PROVIDERS } from '../providers/registry.ts';

/** The fields of a platform's block in APPS_FILE, each with the variable that means the same: `keyFile` → `APNS_KEY_FILE`. */
export const APP_FIELDS: Readonly<Record<Platform, ReadonlyMap<string, string>>> = Object.fromEntries(
  PLATFORMS.map((platform) => [platform, fieldsOf(platform)]),
) as Record<Platform, ReadonlyMap<string, string>>;

function fieldsOf(platform: Platform): ReadonlyMap<string, string> {
  const { variables, quota, appFields = {} } = PROVIDERS[platform].settings;
  const names = [...Object.keys(variables.shape), quota.variable];
  return new Map(names.map((variable) => [appFields[variable] ?? fieldOf(variable, platform), variable]));
}

/** `APNS_KEY_FILE`, `apns` → `keyFile` */
function fieldOf(variable: string, platform: Platform): string {
  const prefix = `${platform.toUpperCase()}_`;
  if (!variable.startsWith(prefix)) throw new Error(`${variable}: name its field in \`appFields\` of ${platform}`);
  const words = variable.slice(prefix.length).toLowerCase();
  return words.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
}

/** Whether the value is the path of a file. */
export function isFileField(field: string): boolean {
  return field.endsWith('File');
}
