import type { Asks } from './asks.ts';
import type { Moving } from './moving.ts';
import type { Middle } from './paired.ts';

/** The result of one case in rounds with all others. */
export interface CaseResult {
  readonly name: string;
  readonly asksPerSecond: number;
  /** This case's rate over that of SET, and over that of pushpacer with two rules: medians over the rounds. */
  readonly vsSet: number;
  readonly vsOurs: number;
  readonly microsInRedis: number;
}

/** The rate of pushpacer, admitted with two rules (one is the gap), over that of another case: above 1 if pushpacer is faster. */
export interface Ratios {
  readonly set: Middle;
  readonly rolling?: Middle;
  readonly flexibleUnion?: Middle;
  readonly flexibleSingle?: Middle;
  /** pushpacer with two rolling windows over the union of two fixed ones. */
  readonly windowsFlexibleUnion?: Middle;
}

/** Bytes of Redis a recipient, with 10 and with 60 sends. */
export interface Bytes {
  readonly with10: number;
  readonly with60: number;
}

export interface Results {
  readonly quick: boolean;
  readonly seconds: number;
  readonly versions: Readonly<Record<string, string>>;
  readonly cases: readonly CaseResult[];
  readonly ratios: Ratios;
  readonly bytes: { readonly ours: Bytes; readonly rolling?: Bytes; readonly flexible?: Bytes };
  readonly moving: Moving;
  readonly asks: { readonly ours: Asks; readonly rolling?: Asks; readonly flexible?: Asks };
}

/** 10^6 bytes, for 100,000 recipients with 60 sends each. */
export function megabytesFor100k({ with60 }: Bytes): number {
  return (with60 * 100_000) / 1_000_000;
}

/** The names that `--json` prints; null for what a quick run leaves out. */
export function jsonOf(results: Results): Record<string, unknown> {
  const { quick, seconds, versions, ratios, bytes, asks, moving, cases } = results;
  return {
    suite: 'limiter',
    quick,
    seconds: round(seconds, 1),
    vsSet: median(ratios.set),
    vsRateLimiterFlexible: median(ratios.flexibleUnion),
    vsRateLimiterFlexibleSingle: median(ratios.flexibleSingle),
    twoWindowsVsRateLimiterFlexible: median(ratios.windowsFlexibleUnion),
    vsRollingRateLimiter: median(ratios.rolling),
    mbFor100kx60: round(megabytesFor100k(bytes.ours), 1),
    rollingRateLimiterMbFor100kx60: bytes.rolling ? round(megabytesFor100k(bytes.rolling), 1) : null,
    rateLimiterFlexibleMbFor100kx60: bytes.flexible ? round(megabytesFor100k(bytes.flexible), 1) : null,
    bytesVsRollingRateLimiter: bytes.rolling ? round(bytes.ours.with10 / bytes.rolling.with10, 3) : null,
    ...bytesJson('', bytes.ours),
    ...bytesJson('rollingRateLimiter', bytes.rolling),
    ...bytesJson('rateLimiterFlexible', bytes.flexible),
    ...asksJson('', asks.ours),
    ...asksJson('rollingRateLimiter', asks.rolling),
    ...asksJson('rateLimiterFlexible', asks.flexible),
    movedWaiting: moving.waiting,
    movingLongestMs: round(moving.longestMs, 2),
    movingTogetherMs: round(moving.togetherMs, 1),
    movingSeconds: round(moving.seconds, 2),
    spread: Object.fromEntries(Object.entries(ratios).map(([name, middle]) => [name, quartiles(middle as Middle)])),
    cases: cases.map((result) => ({
      ...result,
      asksPerSecond: Math.round(result.asksPerSecond),
      vsSet: round(result.vsSet, 3),
      vsOurs: round(result.vsOurs, 3),
      microsInRedis: round(result.microsInRedis, 2),
    })),
    versions,
  };
}

function median(middle: Middle | undefined): number | null {
  return middle === undefined ? null : round(middle.median, 3);
}

/** `[lower quartile, upper quartile]` */
function quartiles({ lowerQuartile, upperQuartile }: Middle): [number, number] {
  return [round(lowerQuartile, 3), round(upperQuartile, 3)];
}

function bytesJson(owner: string, bytes: Bytes | undefined): Record<string, number | null> {
  return {
    [field(owner, 'BytesWith10')]: bytes ? Math.round(bytes.with10) : null,
    [field(owner, 'BytesWith60')]: bytes ? Math.round(bytes.with60) : null,
  };
}

function asksJson(owner: string, asks: Asks | undefined): Record<string, number | null> {
  return {
    [field(owner, 'AsksFor50')]: asks?.[50] ?? null,
    [field(owner, 'AsksFor200')]: asks?.[200] ?? null,
    [field(owner, 'AsksFor1000')]: asks?.[1_000] ?? null,
  };
}

/** `('', 'AsksFor50')` → `asksFor50` */
function field(owner: string, name: string): string {
  return owner === '' ? `${name.charAt(0).toLowerCase()}${name.slice(1)}` : `${owner}${name}`;
}

export function round(value: number, digits: number): number {
  return Number(value.toFixed(digits));
}
