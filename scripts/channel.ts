import { Option } from 'commander';
import { loadQueueConfig, reloadCredentials } from '../src/config/config.ts';
import { formatFault, printable } from '../src/domain/faults.ts';
import { accountOf } from '../src/notification/device.ts';
import { channelSchema } from '../src/notification/devices/apns/fields.ts';
import { createAudit } from '../src/operations/audit.ts';
import type { ApnsOptions } from '../src/providers/apns/apns.ts';
import {
  createChannelManager,
  type ChannelAnswer,
  type ChannelManager,
  type ChannelStorage,
} from '../src/providers/apns/channels.ts';
import { CommandError, createCommand, printJson, runCommand, UsageError } from '../src/terminal/command.ts';
import { canAsk, confirm } from '../src/terminal/progress.ts';
import { atQueueRedis, readEnvironment, whoAmI } from './support/queue.ts';

interface Flags {
  readonly app?: string;
  readonly storage: ChannelStorage;
  readonly yes?: true;
  readonly json?: true;
}

const HELP = `
A channel is Apple's way (since iOS 18) to change the Live Activity of a million people with one push: enqueue a notification
with "channel" in place of "devices". Apple allows 10,000 channels for an app in each environment; delete those that have ended.

APNS_KEY_FILE or APNS_KEY, APNS_KEY_ID, APNS_TEAM_ID, APNS_TOPIC and APNS_ENDPOINT, or the app's block in APPS_FILE, must be the
same as the workers'. What create and delete did is noted in the audit, so they need Redis too: REDIS_URL, REDIS_CLUSTER,
REDIS_SENTINEL_NAME and QUEUE_PREFIX.`;

/** `pushpacer channel create|list|show|delete`: Apple's broadcast channels. */
export async function main(argv: readonly string[]): Promise<void> {
  const command = createCommand('channel', "Creates, lists, shows or deletes Apple's broadcast channels.");
  const app = () => new Option('--app <name>', 'the app, by its name in APPS_FILE (default: that of the environment)');
  command.addHelpText('after', HELP);
  command.addCommand(
    createCommand('create', 'Creates a channel and prints its id.')
      .addOption(
        new Option('--storage <what>', 'what APNs keeps for phones that are offline; it cannot be changed later')
          .choices(['none', 'most-recent'])
          .default('none'),
      )
      .addOption(app())
      .option('--json', 'one JSON object as the last line: id, storage, bundleId')
      .action((flags: Flags) => create(flags)),
  );
  command.addCommand(
    createCommand('list', 'Prints the ids of all channels, one a line.')
      .addOption(app())
      .option('--json', 'one JSON object as the last line: channels, bundleId')
      .action((flags: Flags) => list(flags)),
  );
  command.addCommand(
    createCommand('show', 'Says what a channel keeps.')
      .argument('<id>', "the channel's id", idArgument)
      .addOption(app())
      .option('--json', 'one JSON object as the last line: id, storage, bundleId')
      .action((id: string, flags: Flags) => show(id, flags)),
  );
  command.addCommand(
    createCommand('delete', 'Deletes a channel for good.')
      .argument('<id>', "the channel's id", idArgument)
      .addOption(app())
      .option('--yes', 'do not ask')
      .option('--json', 'one JSON object as the last line: id, deleted, bundleId')
      .action((id: string, flags: Flags) => remove(id, flags)),
  );
  await runCommand(command, argv);
}

async function create({ app, storage, json }: Flags): Promise<void> {
  await noted(app, async (manager, note) => {
    const id = done(await manager.create(storage), manager);
    const { bundleId } = manager;
    // Printed first: without the id nobody could use or delete the channel.
    if (json) printJson({ id, storage, bundleId });
    else process.stdout.write(`${id}\n`);
    await note('channel create', id, { storage });
  });
}

async function list({ app, json }: Flags): Promise<void> {
  await atChannels(app, async (manager) => {
    const channels = done(await manager.list(), manager);
    if (json) printJson({ channels, bundleId: manager.bundleId });
    else process.stdout.write(channels.length === 0 ? 'no channels\n' : `${channels.map(printable).join('\n')}\n`);
  });
}

async function show(id: string, { app, json }: Flags): Promise<void> {
  await atChannels(app, async (manager) => {
    const storage = done(await manager.read(id), manager, id);
    const { bundleId } = manager;
    if (json) printJson({ id, storage, bundleId });
    else process.stdout.write(`${id} of ${bundleId} ${KEEPS[storage]}\n`);
  });
}

const KEEPS: Readonly<Record<ChannelStorage, string>> = {
  none: 'keeps nothing for phones that are offline',
  'most-recent': 'keeps the newest push for phones that are offline, for 8 hours at most',
};

async function remove(id: string, { app, yes, json }: Flags): Promise<void> {
  if (yes !== true && !canAsk()) {
    throw new UsageError('there is no terminal to ask on: add --yes to delete the channel without a question');
  }
  await noted(app, async (manager, note) => {
    const { bundleId } = manager;
    if (yes !== true && !(await confirm(`Delete the channel ${id} of ${bundleId} for good?`))) {
      throw new CommandError('nothing was deleted');
    }
    done(await manager.delete(id), manager, id);
    if (json) printJson({ id, deleted: true, bundleId });
    else process.stdout.write(`deleted ${id}\n`);
    await note('channel delete', id, {});
  });
}

/** The channels of the app that the environment or APPS_FILE describes. */
async function atChannels<T>(app: string | undefined, work: (manager: ChannelManager) => Promise<T>): Promise<T> {
  const manager = createChannelManager(optionsOf(app));
  try {
    return await work(manager);
  } finally {
    await manager.close();
  }
}

type Note = (action: string, id: string, facts: Readonly<Record<string, string>>) => Promise<void>;

/** As `atChannels`, with the audit. Redis is asked first, so that nothing is done that the audit could not note. */
async function noted(
  app: string | undefined,
  work: (manager: ChannelManager, note: Note) => Promise<void>,
): Promise<void> {
  const { redis, queue } = loadQueueConfig(readEnvironment());
  await atChannels(app, (manager) =>
    atQueueRedis(redis, async (connection) => {
      const audit = createAudit(connection, queue.prefix);
      await work(manager, (action, on, facts) =>
        audit.write({ who: whoAmI(), action, on, facts: { bundleId: manager.bundleId, ...facts } }),
      );
    }),
  );
}

function optionsOf(app: string | undefined): ApnsOptions {
  const { credentials, faults, isFaulty } = reloadCredentials(readEnvironment());
  const account = accountOf({ platform: 'apns', app });
  const options = (app === undefined ? credentials : credentials.apps.get(app))?.providers.apns;
  if (options !== undefined && !isFaulty(account)) return options;
  const words = faults.map(formatFault).join('\n  ');
  if (words !== '') throw new CommandError(`bad environment:\n  ${words}`);
  if (app === undefined) {
    throw new CommandError('APNs has no credentials: expected APNS_KEY_FILE, APNS_KEY_ID, APNS_TEAM_ID and APNS_TOPIC');
  }
  throw new UsageError(`--app: expected an app of APPS_FILE with credentials of APNs, found ${JSON.stringify(app)}`);
}

function idArgument(text: string): string {
  const checked = channelSchema.shape.id.safeParse(text);
  if (checked.success) return text;
  throw new UsageError(`ID: expected a channel's id: 1 to 256 characters of base64, found ${text.length} characters`);
}

/** The value of an answer. Throws a CommandError that says what APNs answered, and what to do. */
function done<T>(answer: ChannelAnswer<T>, { host, bundleId }: ChannelManager, id?: string): T {
  if (answer.kind === 'done') return answer.value;
  if (answer.kind === 'failed') {
    const { code, detail, isUnknown } = answer;
    const more = isUnknown ? '; it may have been done all the same: list the channels' : '';
    throw new CommandError(`${host}: ${code}${detail === undefined ? '' : ` (${printable(detail)})`}${more}`);
  }
  const { status, reason } = answer;
  const isMissing = id !== undefined && MISSING.has(reason);
  const advice = isMissing ? `${bundleId} has no channel ${id} in this environment` : ADVICE[reason];
  throw new CommandError(`APNs refuses it: ${status} ${printable(reason)}${advice === undefined ? '' : `: ${advice}`}`);
}

/** APNs' codes for a channel that does not exist: a delete is answered with `BadPath`. */
const MISSING: ReadonlySet<string> = new Set(['ChannelNotRegistered', 'BadChannelId', 'BadPath']);

const NOT_ENABLED =
  'enable the broadcast capability of the app id in the developer account (Certificates, Identifiers & Profiles)';

/** What to do, for each of Apple's codes. */
const ADVICE: Readonly<Record<string, string>> = {
  CannotCreateChannelConfig: 'the app has as many channels as Apple allows; delete those that have ended',
  FeatureNotEnabled: NOT_ENABLED,
  BroadcastFeatureNotEnabled: NOT_ENABLED,
  TopicMismatch: 'the key is not for the app in APNS_TOPIC',
  TopicDisallowed: 'the app in APNS_TOPIC is not allowed; it is the bundle id, without a suffix',
  InvalidProviderToken: "check APNS_KEY_FILE, APNS_KEY_ID, APNS_TEAM_ID, and this machine's clock",
  ExpiredProviderToken: "check this machine's clock",
  TooManyRequests: 'try again later',
};

if (import.meta.main) await main(process.argv.slice(2));
