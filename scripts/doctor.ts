import { accountsOf } from '../src/config/apps-file.ts';
import { hasOwnLimiter, loadConfig, loadLimiterConfig, reloadCredentials, type Config } from '../src/config/config.ts';
import { InputError, printable, type Fault } from '../src/domain/faults.ts';
import { accountOf, type Account } from '../src/notification/device.ts';
import { PLATFORMS } from '../src/notification/notification.ts';
import type { Environment } from '../src/environment/values.ts';
import { createCommand, EXIT, printJson, runCommand } from '../src/terminal/command.ts';
import { columnsOf, green, redOut, table, yellowOut } from '../src/terminal/text.ts';
import type { Finding } from './doctor/check.ts';
import { checkProviders, noCredentialsFindings } from './doctor/providers.ts';
import { checkRedis, type RedisToCheck } from './doctor/redis.ts';
import { lossFindings, nodeFinding, stopFinding, variablesFindings, workersFindings } from './doctor/settings.ts';

interface Flags {
  readonly sendDryRun?: true;
  readonly json?: true;
}

const HELP = `
To be run before a start, with the environment of a worker. Each line is ok, a warning or a fault, and says what to do. Exit code 0
without a fault (there may be warnings), 1 with one, 2 on bad usage.
It changes nothing. It connects to APNs and FCM, signs in as a worker does at its start, and connects to the push services that you
allow for web push, or else to those of the usual browsers; it sends nothing. With --send-dry-run it also sends a request that can alert
nobody: to FCM with validate_only, to APNs for a device token that no device has. Web push has nothing of that kind.
Redis is asked by INFO, so most is known also where it forbids CONFIG. Secrets are never shown.`;

/** `npm run doctor`: checks whether a worker can be started with this environment. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('doctor', 'Says, before a start, whether a worker can run with this environment.')
    .option(
      '--send-dry-run',
      'also send what can alert nobody to APNs and FCM, to see whether they take the credentials',
    )
    .option('--json', 'one JSON object as the last line: ok, faults, warnings, findings')
    .addHelpText('after', HELP)
    .action(async ({ sendDryRun, json }: Flags) => {
      const findings = await examine(process.env, sendDryRun ?? false);
      const count = (result: Finding['result']): number => findings.filter((each) => each.result === result).length;
      const [faults, warnings] = [count('fault'), count('warning')];
      if (json) printJson({ ok: faults === 0, faults, warnings, findings });
      else process.stdout.write(`${[...describe(findings), '', verdict(faults, warnings)].join('\n')}\n`);
      if (faults > 0) process.exitCode = EXIT.failure;
    });
  await runCommand(command, argv);
}

/** Checks everything that can be checked, even if parts of the environment have faults. */
async function examine(env: Environment, isDryRun: boolean): Promise<Finding[]> {
  const { config, faults } = readConfig(env);
  const redis = config ?? readOr(() => loadLimiterConfig(env));
  const { credentials, isFaulty } = reloadCredentials(env);
  return [
    nodeFinding(),
    ...variablesFindings(env, faults),
    ...(config === undefined ? [] : [stopFinding(config)]),
    ...(redis === undefined ? [] : await examineRedis(redis, [...accountsOf(credentials).keys()])),
    ...(await checkProviders(withoutFaulty(credentials, isFaulty), isDryRun)),
    ...(config === undefined ? [] : noCredentialsFindings(config)),
  ];
}

function readConfig(env: Environment): { readonly config?: Config; readonly faults: readonly Fault[] } {
  try {
    return { config: loadConfig(env), faults: [] };
  } catch (error) {
    if (error instanceof InputError) return { faults: error.faults };
    throw error;
  }
}

/** The configuration; undefined if it has faults, which are reported already. */
function readOr<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof InputError) return undefined;
    throw error;
  }
}

type Credentials = Parameters<typeof checkProviders>[0];

/** Only the credentials that a worker could use: the faults of the others are reported already. */
function withoutFaulty(credentials: Credentials, isFaulty: (account: Account) => boolean): Credentials {
  const good = (of: Credentials['providers'], app?: string): Credentials['providers'] => {
    const platforms = PLATFORMS.filter(
      (platform) => !isFaulty(accountOf({ platform, ...(app !== undefined && { app }) })),
    );
    return Object.fromEntries(platforms.flatMap((platform) => (of[platform] ? [[platform, of[platform]]] : [])));
  };
  const apps = [...credentials.apps].map(([app, of]) => [app, { ...of, providers: good(of.providers, app) }] as const);
  return { ...credentials, providers: good(credentials.providers), apps: new Map(apps) };
}

async function examineRedis(
  config: ReturnType<typeof loadLimiterConfig>,
  accounts: readonly Account[],
): Promise<Finding[]> {
  const { redis, limiterRedis, queue } = config;
  const shared = { ...queue, waitReplicas: config.waitReplicas.count };
  const isApart = hasOwnLimiter(config);
  const ofQueue: RedisToCheck = {
    ...{ ...shared, label: 'redis', config: redis, roles: isApart ? ['queue'] : ['queue', 'limiter'] },
  };
  const findings = await checkRedis(ofQueue, async (connection) => [
    ...(await workersFindings(connection, queue.prefix, config, accounts)),
    ...(await lossFindings(connection, queue.prefix)),
  ]);
  if (!isApart) return findings;
  const ofLimiter: RedisToCheck = { ...shared, label: 'limiter', config: limiterRedis, roles: ['limiter'] };
  return [...findings, ...(await checkRedis(ofLimiter, () => Promise.resolve([])))];
}

const PAINT = { ok: green, warning: yellowOut, fault: redOut };

/** A line for each finding, with a line below it that says what to do. */
function describe(findings: readonly Finding[]): string[] {
  const rows = findings.flatMap(({ result, check, text, advice }) => [
    [result, check, printable(text)],
    ...(advice === undefined ? [] : [['', '', `do: ${advice}`]]),
  ]);
  return table(rows, { columns: columnsOf(), wrap: true }).map((line) => {
    const result = /^(ok|warning|fault)\b/.exec(line)?.[0];
    return result === undefined ? line : `${PAINT[result as Finding['result']](result)}${line.slice(result.length)}`;
  });
}

function verdict(faults: number, warnings: number): string {
  const warned = warnings === 0 ? '' : `, ${warnings === 1 ? '1 warning' : `${warnings} warnings`}`;
  if (faults > 0)
    return redOut(`${faults === 1 ? '1 fault' : `${faults} faults`}${warned}: do not start a worker like this`);
  return green(`no fault${warned}: a worker can start`);
}

if (import.meta.main) await main(process.argv.slice(2));
