import type { Result } from '../notification/outcome.ts';
import { MOST_TEXT, readPasses, withPass, type StoryPass, type StorySend } from '../notification/story.ts';
import type { History } from '../queue/history.ts';
import { putBackMs, type Context, type Tried, type Watcher } from './context.ts';
import type { Progress } from './progress.ts';

export interface Recording {
  readonly history: Pick<History, 'write'>;
  /** Names this worker in the passes: `web-1:4711`. */
  readonly worker: string;
  /** The due time (epoch ms) to which an operator, or the end of another notification, moved the job. Undefined if none did. */
  readonly movedTo: (context: Pick<Context, 'jobId' | 'notification'>) => Promise<number | undefined>;
}

/** Records each pass in the job's progress. When a notification has ended, writes its story to the history by one command. */
export function createRecorder(recording: Recording): Watcher {
  const { history, worker } = recording;
  const lateMs = new WeakMap<Context, Promise<number | undefined>>();
  return {
    taken(context) {
      lateMs.set(context, wokenLateMs(context, context.before.dueAt, context.startedAt, recording));
    },
    async ended(context, result, { endedAt }) {
      if (context.newer !== undefined) return; // its progress is left as it is
      const pass = passOf(context, result, { lateMs: await lateMs.get(context), now: endedAt, worker });
      context.progress = recorded(context.progress, pass);
    },
    completing: ({ origin, progress }, outcome, endedAt) =>
      history.write({ ...outcome, ...origin, endedAt, ...readPasses(progress) }),
  };
}

/** If a job is late by less than this, Redis is not asked whether the job was moved. */
const MOVED_MS = 1_000;

/** How long after its due time a job came back. `dueAt`: from the progress, which does not show later moves of the job. */
export async function wokenLateMs(
  context: Context,
  dueAt: number | undefined,
  at: number,
  { movedTo }: Recording,
): Promise<number | undefined> {
  const due = dueAt ?? readPasses(context.progress).passes?.at(-1)?.until;
  if (due === undefined || at - due <= 0) return undefined;
  if (at - due < MOVED_MS) return at - due;
  const moved = await movedTo(context).catch(() => undefined);
  return Math.max(0, at - Math.max(due, moved ?? due));
}

/** The pass that has just ended, in a short form and without anything private. `now`: the end of the pass. */
export function passOf(
  context: Context,
  result: Result,
  { lateMs, now, worker }: { readonly lateMs: number | undefined; readonly now: number; readonly worker: string },
): StoryPass {
  const { startedAt: at, tried, stalls, isSilent } = context;
  const waitMs = waitMsOf(result);
  const slot = usedSlot(context);
  const sends = sendsOf(tried);
  return {
    ...{ at, worker, result: result.kind },
    ...('rule' in result && { rule: result.rule }),
    ...('ruleUntil' in result && result.ruleUntil !== undefined && { ruleUntil: result.ruleUntil }),
    ...('before' in result && result.before !== undefined && { before: result.before }),
    ...(waitMs !== undefined && { until: Math.round(now + waitMs) }),
    ...('code' in result && { code: result.code.slice(0, MOST_TEXT) }),
    ...('by' in result && { by: result.by }),
    ...(result.kind === 'dead-letter' && { reason: result.reason, message: result.message.slice(0, MOST_TEXT) }),
    ...(slot !== undefined && { slot: Math.round(slot.at), lateMs: slot.lateMs }),
    ...(lateMs !== undefined && lateMs >= 1 && { wokenLateMs: Math.round(lateMs) }),
    ...(stalls > 0 && { stalls }),
    ...('maybeShown' in result && { maybeShown: true as const }),
    ...(isSilent && sends.length > 0 && { silenced: true as const }),
    ...(sends.length > 0 && { sends }),
  };
}

/** How long the notification waits after a pass with this result: until its slot, or the next try. */
export function waitMsOf(result: Result): number | undefined {
  return result.kind === 'requeued' ? result.waitMs : putBackMs(result);
}

/** The slot that was used, and how long after the slot the first request was handed over. Undefined if no request left. */
export function usedSlot({ slot, tried }: Context): { readonly at: number; readonly lateMs: number } | undefined {
  if (slot === undefined || tried.every(({ reply }) => reply.unsent === true)) return undefined;
  const handedOverAt = Math.min(...tried.map((each) => each.handedOverAt));
  return { at: slot.at, lateMs: tenth(Math.max(0, handedOverAt - slot.sendAt)) };
}

/** The sends of the pass, the failed ones first. */
function sendsOf(tried: readonly Tried[]): StorySend[] {
  const all = tried.map(({ label, reply, tookMs }): StorySend => {
    const isAccepted = reply.meaning === 'accepted';
    return {
      device: label,
      code: reply.code.slice(0, MOST_TEXT),
      tookMs: tenth(tookMs),
      ...(isAccepted && { accepted: true as const }),
    };
  });
  return all.toSorted((a, b) => Number(a.accepted ?? false) - Number(b.accepted ?? false));
}

function tenth(ms: number): number {
  return Math.round(ms * 10) / 10;
}

export function recorded(progress: Progress, pass: StoryPass): Progress {
  return { ...progress, ...withPass(readPasses(progress), pass) };
}
