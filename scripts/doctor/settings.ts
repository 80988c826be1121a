import type { Config } from '../../src/config/config.ts';
import { unknownText, unknownVariables } from '../../src/config/variables.ts';
import type { Account } from '../../src/notification/device.ts';
import { formatFault, printable, type Fault } from '../../src/domain/faults.ts';
import { policyText } from '../../src/domain/limits.ts';
import { formatDuration } from '../../src/domain/time.ts';
import type { Environment } from '../../src/environment/values.ts';
import { lossText } from '../../src/operations/losses.ts';
import { missingCredentials } from '../../src/operations/credentials.ts';
import { packageVersion } from '../../src/observe/metrics.ts';
import { readLosses } from '../../src/queue/losses.ts';
import { accountsOf, policyIdOf, readWorkers } from '../../src/queue/workers.ts';
import { readClock, type Connection } from '../../src/redis/connection.ts';
import { createFindings, type Finding } from './check.ts';

/** Checks the settings of the environment, and whether running workers have the same ones. */

/** Always ok: this program would not have started with an older Node. */
export function nodeFinding(): Finding {
  return createFindings('node').ok(`Node ${process.versions.node}; pushpacer ${packageVersion()}`);
}

/** @param faults the faults of all variables, and of all files that the variables name */
export function variablesFindings(env: Environment, faults: readonly Fault[]): Finding[] {
  const { ok, warning, fault } = createFindings('variables');
  const advice = 'correct it; pushpacer worker --help explains every variable';
  const known = new Set(faults.map(({ path }) => path));
  const unknown = unknownVariables(env).filter(({ name }) => !known.has(name));
  const findings = [
    ...faults.map((each) => fault(printable(formatFault(each)), advice)),
    ...unknown.map((each) => warning(printable(unknownText(each)), 'correct or remove it: nothing reads it')),
  ];
  return findings.length > 0 ? findings : [ok('all can be read, and the files that they name')];
}

/** How long a send may take. If a worker stops without waiting that long, sends are cut off. */
const SEND_MS = 10_000;
/** A worker ends at most this long after its grace period. */
const ENDING_MS = 5_000;

export function stopFinding({ shutdownGraceMs, lockMs }: Pick<Config, 'shutdownGraceMs' | 'lockMs'>): Finding {
  const { ok, warning } = createFindings('stop');
  const [grace, lock] = [shutdownGraceMs, lockMs].map(formatDuration);
  if (shutdownGraceMs < SEND_MS) {
    const text = `SHUTDOWN_GRACE ${grace} is shorter than a send may take, ${formatDuration(SEND_MS)}: some are cut off, and may alert twice`;
    return warning(text, 'set SHUTDOWN_GRACE=10s or more');
  }
  if (shutdownGraceMs > lockMs) {
    const text = `SHUTDOWN_GRACE ${grace} is longer than LOCK_DURATION ${lock}: a stopping worker that loses Redis loses its jobs to others while it still sends`;
    return warning(text, 'set LOCK_DURATION to SHUTDOWN_GRACE or more');
  }
  const supervisor = formatDuration(shutdownGraceMs + ENDING_MS);
  return ok(
    `SHUTDOWN_GRACE ${grace}, LOCK_DURATION ${lock}; let the supervisor wait ${supervisor} or more before it kills`,
  );
}

type Policy = Pick<Config, 'policy' | 'categories' | 'quietHours' | 'apartRules'>;

/** Whether the living workers have the same limits, the same version and the same credentials. */
export async function workersFindings(
  connection: Connection,
  prefix: string,
  own: Policy,
  accounts: readonly Account[],
): Promise<Finding[]> {
  const { ok, warning } = createFindings('workers');
  const { workers } = await readWorkers(connection, prefix);
  const alive = workers.filter((worker) => worker.alive);
  const policyId = policyIdOf(own);
  const others = alive.filter((worker) => worker.policyId !== undefined && worker.policyId !== policyId);
  const version = packageVersion();
  const otherVersions = new Set(alive.map((worker) => worker.version).filter((each) => each !== version));
  const findings: Finding[] = [];
  if (others.length > 0) {
    const text = `${count(others.length)} of ${alive.length} ${others.length === 1 ? 'has' : 'have'} other limits than this environment (${policyText(own.policy)})`;
    findings.push(
      warning(text, 'give all of them the same LIMIT_ variables and LIMITS_FILE, unless you are changing them now'),
    );
  }
  if (otherVersions.size > 0) {
    const text = `some run ${[...otherVersions].map(printable).join(', ')}, and this is ${version}`;
    findings.push(warning(text, 'docs/upgrading.md says what may run beside what'));
  }
  const all = new Set(alive.flatMap(accountsOf));
  const lacking = [...all].filter((account) => !accounts.includes(account)).toSorted();
  if (lacking.length > 0) {
    const text = `some have credentials for ${lacking.map(printable).join(', ')}, and this environment has none`;
    findings.push(
      warning(text, 'give all of them the same credentials: a worker puts back the jobs that it has none for'),
    );
  }
  const missing = missingCredentials(alive, accounts);
  if (missing !== undefined) {
    findings.push(
      warning(missing, 'give these workers the same credentials as the others, unless you are changing them now'),
    );
  }
  if (findings.length > 0) return findings;
  return [ok(alive.length === 0 ? 'none is alive' : `${count(alive.length)} alive, with the same limits and version`)];
}

/** What workers noticed that Redis lost. Empty if they noticed nothing. */
export async function lossFindings(connection: Connection, prefix: string): Promise<Finding[]> {
  const { warning } = createFindings('losses');
  const now = await readClock(connection);
  const losses = await readLosses(connection, prefix, now);
  return losses.map((loss) => warning(lossText(loss, now), LOSS_ADVICE));
}

const LOSS_ADVICE = 'docs/runbook.md says what; when that is done: pushpacer status --acknowledge';

function count(workers: number): string {
  return workers === 1 ? '1 worker' : `${workers} workers`;
}
