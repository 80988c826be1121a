import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { notificationIdOf } from '../../src/queue/names.ts';
import type { Done, Line, PairsFacts } from './facts.ts';

const SHOWN = ['by', 'reason', 'code', 'rule', 'waitMs', 'delayMs', 'message', 'error'] as const;

/** All lines about jobs. `shifts`: by how much the clock of a worker is ahead, by the name of its log. */
export async function readLines(folder: string, shifts: ReadonlyMap<string, number>): Promise<Line[]> {
  const logs = (await readdir(folder)).filter((name) => name.endsWith('.log'));
  const lines = await Promise.all(
    logs.map(async (log) => {
      const text = await readFile(join(folder, log), 'utf8');
      return text.split('\n').flatMap((line) => lineOf(line, log, shifts.get(log) ?? 0) ?? []);
    }),
  );
  return lines.flat().toSorted((a, b) => a.at - b.at);
}

function lineOf(text: string, log: string, shiftMs: number): Line | undefined {
  let read: Record<string, unknown>;
  try {
    read = JSON.parse(text) as Record<string, unknown>;
  } catch {
    return undefined; // half a line of a worker that was killed
  }
  const { jobId, outcome, msg, time } = read;
  if (typeof jobId !== 'string') return undefined;
  const facts = SHOWN.flatMap((name) => (read[name] === undefined ? [] : [`${name} ${JSON.stringify(read[name])}`]));
  const isPass = typeof outcome === 'string';
  return {
    at: Date.parse(String(time)) - shiftMs,
    log,
    jobId,
    ...(isPass && { outcome }),
    text: [isPass ? outcome : String(msg), ...facts].join(', '),
  };
}

interface Event {
  readonly at: number;
  readonly text: string;
}

const LAST = 20;

/** The last lines of the story of one notification: what was asked, the passes, and what phones got. Times are since the run began. */
export function storyOf(name: string, facts: PairsFacts): string[] {
  const life = facts.lives.find((one) => one.name === name);
  const id = life?.id ?? name;
  const beganAt = facts.lives[0]?.askedAt ?? 0;
  const enqueued = facts.lives.filter((one) => one.id === id);
  const names = new Set(enqueued.map((one) => one.name));
  const ends = facts.ends.filter((end) => names.has(end.life));
  /** What was done to its recipient after its end is of no use here. */
  const overAt = Math.max(ends.at(-1)?.at ?? Infinity, enqueued.at(-1)?.askedAt ?? 0);
  const events: Event[] = [
    ...enqueued.map(({ askedAt, name: itsName, input }) => ({
      at: askedAt,
      text: `enqueued as ${itsName}: ${kindOf(input)}`,
    })),
    ...facts.done.flatMap((done) => {
      const isTold = isAboutId(done, id) || (done.from <= overAt && isAboutOthers(done, life?.input));
      return isTold ? [{ at: done.from, text: doneText(done) }] : [];
    }),
    ...facts.lines
      .filter(({ jobId }) => notificationIdOf(jobId) === id)
      .map(({ at, log, jobId, text }) => ({ at, text: `${log.replace('.log', '')}: ${jobId} ${text}` })),
    ...ends.map((end) => ({
      at: end.at,
      text: `end of ${end.life} (${end.from}): ${end.outcome}${end.by ? ` by ${end.by}` : ''}, generation ${end.generation}`,
    })),
    ...facts.entries
      .filter(({ data }) => names.has(nameIn(data)))
      .map(({ at, platform, accepted, status, body, data }) => {
        return {
          at,
          text: `${platform}: ${nameIn(data)} ${accepted ? 'accepted' : 'refused'} ${status ?? 'without an answer'}, ${body ?? 'no text'}`,
        };
      }),
    ...facts.incidents
      .filter(({ ids }) => ids.has(id))
      .map(({ at, kind }) => ({ at, text: `in hand at a fault: ${kind}` })),
  ];
  const lines = events
    .toSorted((a, b) => a.at - b.at)
    .map(({ at, text }) => `${((at - beganAt) / 1_000).toFixed(3).padStart(8)} s  ${text}`);
  if (lines.length <= LAST) return lines;
  const first = lines.find((line) => line.includes('  enqueued as ')) ?? '';
  const last = lines.slice(-LAST);
  return last.includes(first) ? last : [first, `  (${lines.length - LAST - 1} lines)`, ...last];
}

/** The notification's name in what an app gets beside the alert: `marker.n17@2`. */
function nameIn(data: Readonly<Record<string, string>>): string {
  return data['ref']?.split('.')[1] ?? '';
}

function kindOf(input: PairsFacts['lives'][number]['input']): string {
  const {
    onThrottle = 'delay',
    pushType = 'alert',
    collapseId,
    digest,
    category,
    cancellationKey,
    recipientId,
  } = input;
  const { sendAfter, expiresAt } = input;
  return [
    recipientId,
    pushType === 'alert' ? onThrottle : pushType,
    ...[collapseId ?? digest?.key, category, cancellationKey].filter((word) => word !== undefined),
    ...(sendAfter === undefined ? [] : ['sendAfter']),
    ...(expiresAt === undefined ? [] : ['expires']),
  ].join(' ');
}

function isAboutId(done: Done, id: string): boolean {
  if ('id' in done) return done.id === id;
  return 'life' in done && done.life.replace(/@\d+$/, '') === id;
}

function isAboutOthers(done: Done, input: PairsFacts['lives'][number]['input'] | undefined): boolean {
  if (done.kind === 'cancel-key') return done.recipientId === input?.recipientId && done.key === input.cancellationKey;
  return 'recipientId' in done && done.recipientId === input?.recipientId;
}

function doneText(done: Done): string {
  const fields = Object.entries(done).filter(([name]) => name !== 'from' && name !== 'until' && name !== 'kind');
  return `act ${done.kind} ${JSON.stringify(Object.fromEntries(fields))}`;
}
