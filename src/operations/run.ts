import { InputError } from '../domain/faults.ts';
import type { CountedAs } from '../domain/limits.ts';
import type { Canceled, CancelTarget } from '../notification/notification.ts';
import type { Inspection, Limiter } from '../limiter/limiter.ts';
import { findCancelable, type Cancelables, type CancelParts } from '../producer/cancel.ts';
import { act, limitersOf, type ActionParts } from './actions.ts';
import type { Audit } from './audit.ts';
import type { Asked, Did, OperatorStore, Plan } from './operation.ts';
import { preview, previewCancel, type CancelPreview, type Preview, type PreviewParts } from './preview.ts';

/** What a cancel needs in addition to the recipient's own queues. */
export interface CancelingParts {
  readonly find: Omit<CancelParts, 'deciders'>;
  readonly cancel: (target: CancelTarget) => Promise<Canceled>;
}

/** What operations on one recipient need. `queues` are those that may have the recipient's notifications. */
export interface OperationParts extends ActionParts {
  readonly limiters: Readonly<Record<CountedAs, ActionParts['limiters'][CountedAs] & Pick<Limiter, 'inspect'>>>;
  readonly audit: Pick<Audit, 'write'>;
  readonly store: OperatorStore;
  /** Called only for a cancel, since it opens every queue. */
  readonly canceling: () => Promise<CancelingParts>;
}

export interface Foreseen extends Pick<Plan, 'would' | 'settled'> {
  readonly preview: Preview | CancelPreview;
}

/** What the operation would do. Writes nothing. Rejects with InputError if `runOperation` would. */
export async function previewOperation(
  asked: Asked,
  parts: OperationParts & Pick<PreviewParts, 'foresights'>,
): Promise<Foreseen> {
  const { plan, alerts } = await planOf(asked, parts);
  const { deed, would, settled } = plan;
  const { foresights, queues: own } = parts;
  const { recipientId } = asked;
  if (deed.kind === 'own') return { would, settled, preview: nothingMoves(alerts) };
  if (deed.kind !== 'cancel') return { would, settled, preview: await preview(recipientId, deed, { foresights, own }) };
  const found = await findOwn(asked, deed.target, (await parts.canceling()).find);
  const { canceled: cancels, tooLate } = found;
  if (!found.found.some(({ waits }) => waits))
    return { would, settled, preview: { ...nothingMoves(alerts), cancels, tooLate } };
  return { would, settled, preview: await previewCancel(recipientId, found, { foresights, own }) };
}

export interface Done extends Did {
  /** The limiter's clock when the operation began: epoch milliseconds. The times in `text` are relative to it. */
  readonly now: number;
  /** How many waiting notifications got another slot. */
  readonly moved: number;
  /** How many notifications moved, or were canceled. */
  readonly count: number;
  /** The reservations after the operation, the next one first. */
  readonly reserved: Inspection['reserved'];
}

/**
 * Runs the operation, and writes it into the audit. If it fails half-way, it may be run again. Rejects with InputError for an
 * end that has passed, and if a notification to cancel is another recipient's.
 *
 * @param who the operator, as the audit shows it
 * @param onMoved called now and then with how many have moved so far, and how many waited before the operation
 */
export async function runOperation(
  asked: Asked,
  parts: OperationParts,
  who: string,
  onMoved: (moved: number, waited: number) => void = () => undefined,
): Promise<Done> {
  const { operation, recipientId } = asked;
  const { plan, alerts: before } = await planOf(asked, parts);
  const { deed, settled } = plan;
  const doesMove = deed.kind !== 'cancel' && deed.kind !== 'own';
  const write = (facts: Readonly<Record<string, number | boolean>>): Promise<void> =>
    parts.audit.write({
      ...{ who, action: `recipient ${operation.name}`, on: recipientId },
      facts: { ...settled, ...facts },
    });
  let result = { wasThere: false, moved: 0, canceled: 0, tooLate: 0 };
  try {
    if (deed.kind === 'cancel') {
      const { find, cancel } = await parts.canceling();
      if ('id' in deed.target) await findOwn(asked, deed.target, find);
      result = { ...result, ...(await cancel(deed.target)) };
    } else if (deed.kind === 'own') {
      result.wasThere = await deed.run(parts.store, who);
    } else {
      const waited = (await waitingOf(recipientId, plan, before, parts)).length;
      onMoved(0, waited);
      const acted = await act(recipientId, deed, parts, (moved) => {
        result.moved = moved;
        onMoved(moved, waited);
      });
      result = { ...result, ...acted };
    }
  } catch (error) {
    const facts = { ...(doesMove && { moved: result.moved }), failed: true };
    if (!(error instanceof InputError)) await write(facts).catch(() => undefined); // an InputError changed nothing
    throw error;
  }
  const { canceled, tooLate } = result;
  await write({ ...(doesMove && { moved: result.moved }), ...(deed.kind === 'cancel' && { canceled, tooLate }) });
  const after = await parts.limiters.alert.inspect(recipientId);
  const reserved = await waitingOf(recipientId, plan, after, parts);
  const { now } = before;
  const count = deed.kind === 'cancel' ? result.canceled : result.moved;
  return { ...plan.did({ ...result, before, after }), now, moved: result.moved, count, reserved };
}

function nothingMoves({ now, reserved }: Inspection): Preview {
  const lastAt = reserved.at(-1)?.at;
  return {
    ...{ now, waiting: reserved.length, moves: 0, earlier: 0, later: 0, expiring: 0, expiryKnown: 0, slots: [] },
    ...(lastAt !== undefined && { lastAtBefore: lastAt, lastAtAfter: lastAt }),
  };
}

/** Plans the operation. Asks the limiter first, since the end of the operation counts from the limiter's clock. */
async function planOf(
  { operation, recipientId, fields, names }: Asked,
  { limiters, policy }: Pick<OperationParts, 'limiters' | 'policy'>,
): Promise<{ readonly plan: Plan; readonly alerts: Inspection }> {
  const alerts = await limiters.alert.inspect(recipientId);
  return { plan: operation.plan(fields, { recipientId, now: alerts.now, policy, names }), alerts };
}

/** What waits at the limiters that the operation concerns, the next slot first. */
async function waitingOf(
  recipientId: string,
  { deed }: Plan,
  alerts: Inspection,
  { limiters }: Pick<OperationParts, 'limiters'>,
): Promise<Inspection['reserved']> {
  if (deed.kind === 'own') return alerts.reserved;
  const concerned = deed.kind === 'cancel' ? Object.values(limiters) : limitersOf(deed, limiters);
  const others = concerned.filter((each) => each !== limiters.alert);
  const apart = await Promise.all(others.map((each) => each.inspect(recipientId)));
  return [alerts, ...apart].flatMap((each) => each.reserved).toSorted((a, b) => a.at - b.at);
}

/**
 * What a cancel would find. Throws if the cancel names one notification, and the recipient has none with this id: nothing of
 * another recipient may be canceled.
 */
async function findOwn(
  { recipientId, names }: Asked,
  target: CancelTarget,
  find: CancelingParts['find'],
): Promise<Cancelables> {
  const cancelables = await findCancelable(target, find);
  if (!('id' in target) || cancelables.found.some((job) => job.recipientId === recipientId)) return cancelables;
  const expected = 'the id of a notification of this recipient that waits';
  throw new InputError('cannot cancel', [
    { path: names.of('notification'), expected, found: JSON.stringify(target.id) },
  ]);
}
