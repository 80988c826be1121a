import { NO_LATENCY } from '../../sandbox/loopback/timing.ts';
import { round } from '../limiter/results.ts';
import { asMarkdown, asText, type Table } from '../limiter/table.ts';
import type { Report, Suite, SuiteOptions } from '../suite.ts';
import { withSurroundings } from '../throughput/measure.ts';
import { startCounters } from '../throughput/providers.ts';
import { wholeOf } from '../throughput/table.ts';
import { measureMemory, type Memory } from './memory.ts';
import { measureWork, type Work } from './work.ts';

export const capacitySuite: Suite = {
  name: 'capacity',
  description: 'bytes of Redis, commands and processor time for each notification',
  run,
};

interface Results {
  readonly sizes: { readonly few: number; readonly many: number };
  readonly memory: Memory;
  readonly work: Work;
  readonly versions: Readonly<Record<string, string>>;
  readonly seconds: number;
}

async function run({ quick, say }: SuiteOptions): Promise<Report> {
  const start = performance.now();
  const sizes = quick ? { few: 1_000, many: 2_000 } : { few: 10_000, many: 100_000 };
  const counters = await startCounters(NO_LATENCY);
  try {
    return await withSurroundings(say, async ({ dir }, redis) => {
      const around = { dir, env: counters.env };
      const memory = await measureMemory(sizes, around, say);
      const work = await measureWork(quick ? 1_000 : 8_000, around, say);
      const seconds = (performance.now() - start) / 1_000;
      return reportOf({ sizes, memory, work, versions: { node: process.versions.node, redis }, seconds }, quick);
    });
  } finally {
    await counters.close();
  }
}

function reportOf(results: Results, quick: boolean): Report {
  const { versions, seconds } = results;
  const list = Object.entries(versions).map(([name, version]) => `${name} ${version}`);
  const foot = `${quick ? 'A quick check, no measurement. ' : ''}${list.join(', ')}; ${seconds.toFixed(0)} s.`;
  const tables = [memoryTable(results), workTable(results)];
  return {
    json: jsonOf(results, quick),
    text: [...tables.map(asText), foot].join('\n\n'),
    markdown: [...tables.map(asMarkdown), foot].join('\n\n'),
  };
}

function memoryTable({ memory, sizes }: Results): Table {
  const { few, many } = sizes;
  return [
    ['in Redis', 'bytes each'],
    ['a notification as JSON, which is in the next seven', wholeOf(memory.json)],
    [`waits, no worker has looked at it yet: of ${wholeOf(few)}`, wholeOf(memory.waiting.few)],
    [`the same: of ${wholeOf(many)}`, wholeOf(memory.waiting.many)],
    [`waits for its slot, 100 to a recipient: of ${wholeOf(few)}`, wholeOf(memory.reserved.few)],
    [`the same: of ${wholeOf(many)}`, wholeOf(memory.reserved.many)],
    ['delivered, kept for an hour', wholeOf(memory.delivered)],
    ['dead letter, after its first hour', wholeOf(memory.deadLetter)],
    ['dead letter, in its first hour', wholeOf(memory.deadLetterInFirstHour)],
    ['recipient with 1 alert in the longest window', wholeOf(memory.recipientWith1)],
    ['recipient with 10', wholeOf(memory.recipientWith10)],
    ['recipient with 60', wholeOf(memory.recipientWith60)],
  ];
}

function workTable({ work }: Results): Table {
  const row = (name: string, { commands, workerMs, redisMs }: Work['atOnce']): string[] => [
    name,
    commands.toFixed(2),
    workerMs.toFixed(3),
    redisMs.toFixed(3),
    (workerMs / redisMs).toFixed(1),
  ];
  return [
    ['one notification', 'commands to Redis', 'CPU ms, worker', 'CPU ms, Redis', 'worker / Redis'],
    row('delivered at once', work.atOnce),
    row('put back once, then delivered', work.deferred),
    ['connections of a worker', String(work.connections), '', '', ''],
  ];
}

function jsonOf({ sizes, memory, work, versions, seconds }: Results, quick: boolean): Report['json'] {
  return {
    suite: 'capacity',
    quick,
    seconds: round(seconds, 1),
    sizes,
    jsonBytes: memory.json,
    waitingBytes: round(memory.waiting.few, 0),
    waitingBytesOfMany: round(memory.waiting.many, 0),
    reservedBytes: round(memory.reserved.few, 0),
    reservedBytesOfMany: round(memory.reserved.many, 0),
    deliveredBytes: round(memory.delivered, 0),
    deadLetterBytes: round(memory.deadLetter, 0),
    deadLetterBytesInFirstHour: round(memory.deadLetterInFirstHour, 0),
    recipientBytesWith1: round(memory.recipientWith1, 0),
    recipientBytesWith10: round(memory.recipientWith10, 0),
    recipientBytesWith60: round(memory.recipientWith60, 0),
    commandsAtOnce: round(work.atOnce.commands, 2),
    commandsDeferred: round(work.deferred.commands, 2),
    workerCpuMsAtOnce: round(work.atOnce.workerMs, 3),
    workerCpuMsDeferred: round(work.deferred.workerMs, 3),
    redisCpuMsAtOnce: round(work.atOnce.redisMs, 3),
    redisCpuMsDeferred: round(work.deferred.redisMs, 3),
    workerOverRedis: round(work.atOnce.workerMs / work.atOnce.redisMs, 2),
    connections: work.connections,
    versions,
  };
}
