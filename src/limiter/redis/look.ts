import type { CategoryPolicy, Overtaking } from '../../domain/limits.ts';
import type { OrderNote, OrderNotes } from '../overtaking.ts';
import { limitsOf, MAX_EARLY_MS, NO_SHOW_MS } from '../pace.ts';
import { laterOf, waitingIn, type RecipientState, type Replanned, type Scope, type Slot } from '../recipient-state.ts';
import { allKeys, defineInspect, orderField, recipientKeys, type LimiterRedis } from './keys.ts';
import type { QuietTerms } from './quiet-terms.ts';
import { readInspect, type Inspected, type Policies } from './wire.ts';

/** How many entries one script call reads, from all sets together. */
const ENTRIES_A_PART = 1_000;
/** How many notes one command reads. */
const NOTES_A_PART = 500;

interface LookParts {
  readonly redis: LimiterRedis;
  readonly prefix: string;
  /** How many categories have policies. */
  readonly categories: number;
  readonly quietTerms: QuietTerms;
  readonly overtaking: Overtaking;
  readonly answered: <T>(answer: Promise<T>) => Promise<T>;
}

/** Reads everything that is stored about a recipient. Writes nothing. */
export function createLook({ redis, prefix, categories, quietTerms, overtaking, answered }: LookParts) {
  const inspect = defineInspect(redis, 1 + categories);

  async function notesOf(recipientId: string, ids: readonly string[]): Promise<OrderNotes> {
    const { waiting } = recipientKeys(prefix, recipientId);
    const notes = new Map<string, OrderNote>();
    for (let from = 0; from < ids.length; from += NOTES_A_PART) {
      const part = ids.slice(from, from + NOTES_A_PART);
      const texts = await answered(redis.hmget(waiting, ...part.map(orderField)));
      for (const [index, id] of part.entries()) {
        const note = readNote(texts[index]);
        if (note !== undefined) notes.set(id, note);
      }
    }
    return notes;
  }

  return async (recipientId: string, policies: Policies): Promise<RecipientState> => {
    const keys = allKeys(prefix, recipientId, policies.categories);
    const state = await lookAt(policies, quietTerms, async (leaveOut, most) =>
      readInspect(await answered(inspect(...keys, policies.allPolicies, leaveOut, most))),
    );
    const ids = waitingIn(state.scopes).map(({ id }) => id);
    return { ...state, overtaking, notes: await notesOf(recipientId, ids) };
  };
}

/** A note as waiting.lua and move.lua store it. */
function readNote(text: string | null | undefined): OrderNote | undefined {
  if (text === null || text === undefined) return undefined;
  const { first, times, lateMs } = JSON.parse(text) as { first?: 1; times?: number; lateMs?: number };
  return first === 1 ? { goesFirst: true } : { times: times ?? 0, lateMs: lateMs ?? 0 };
}

type Sets = Omit<RecipientState, 'notes' | 'overtaking'>;

/**
 * Reads in parts, so that no part blocks Redis for long. If an entry changes meanwhile, its old or its new state is read.
 * `part` leaves out the first `leaveOut` entries of each set, and reads at most the next `most`.
 */
async function lookAt(
  policies: Policies,
  quietTerms: QuietTerms,
  part: (leaveOut: number, most: number) => Promise<Inspected>,
): Promise<Sets> {
  const sets = Array.from({ length: 3 * (1 + policies.categories.length) }, () => new Map<string, number>());
  const most = Math.max(1, Math.floor(ENTRIES_A_PART / sets.length));
  for (let leaveOut = 0; ; leaveOut += most) {
    const found = await part(leaveOut, most);
    for (const [index, entries] of found.sets.entries()) {
      for (const [entry, at] of entries) sets[index]?.set(entry, at);
    }
    if (found.sets.every((entries) => entries.length < most)) return stateOf(found, sets, policies, quietTerms);
  }
}

function stateOf(
  { now, stored, block, quiet }: Inspected,
  sets: readonly ReadonlyMap<string, number>[],
  policies: Policies,
  quietTerms: QuietTerms,
): Sets {
  const slotsOf = (index: number): Slot[] =>
    [...(sets[index] ?? [])].map(([id, at]) => ({ id, at })).sort((a, b) => a.at - b.at);
  const scopeOf = (policy: CategoryPolicy, index: number, category?: string): Scope => ({
    ...(category !== undefined && { category, exempt: policy.exempt ?? [] }),
    limits: limitsOf(policy, category),
    slots: { sent: slotsOf(3 * index), reserved: slotsOf(3 * index + 1), heldBack: slotsOf(3 * index + 2) },
  });
  const policy = stored?.policy ?? policies.policy;
  const categories = policies.categories.map(([name, own], index) => scopeOf(own, 1 + index, name));
  const { hours, windows } = quietTerms.read(quiet, now);
  return {
    ...{ now, policy, stored, block, blockedUntil: block?.until },
    ...{ hours, areHoursStored: quiet !== undefined, quiet: windows },
    scopes: [{ ...scopeOf(policy, 0), later: laterOf(stored, policies.policy) }, ...categories],
  };
}

/** ARGV of move.lua. */
export function toMoves(
  places: readonly Replanned[],
  { scopes, notes }: Pick<RecipientState, 'scopes' | 'notes'>,
): string[] {
  const items = places.map(({ id, own, wasHeldBack, wasAt, isHeldBack, at, note = notes.get(id) }) => {
    const number = own === undefined ? 0 : scopes.indexOf(own) + 1;
    const kept = at + NO_SHOW_MS;
    const noted = note === undefined ? [] : [noteText(note, kept), kept];
    return [id, number, Number(wasHeldBack), wasAt, Number(isHeldBack), at, ...noted];
  });
  const overtaken = places.filter(({ note }) => note !== undefined).map(({ wasAt }) => wasAt - MAX_EARLY_MS);
  return [JSON.stringify(items), overtaken.length === 0 ? '' : String(Math.min(...overtaken))];
}

/** The text that `readNote` reads. */
function noteText({ goesFirst = false, times, lateMs }: OrderNote, kept: number): string {
  return JSON.stringify(goesFirst ? { first: 1, kept } : { times, lateMs, kept });
}
