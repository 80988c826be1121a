import { NO_LATENCY } from '../../sandbox/loopback/timing.ts';
import { withSurroundings } from '../redis.ts';
import { reportOf, round, wholeOf, type Report, type Suite, type Table } from '../suite.ts';
import { startCounters } from '../throughput/providers.ts';
import { measureMemory, measureWork, type Memory, type Sizes, type Work } from './measure.ts';

export const capacitySuite: Suite = {
  name: 'capacity',
  description: 'bytes of Redis, commands and processor time for each notification',
  async run({ quick, say }) {
    const start = performance.now();
    const sizes = quick ? { few: 1_000, many: 2_000 } : { few: 10_000, many: 100_000 };
    const counters = await startCounters(NO_LATENCY);
    try {
      return await withSurroundings(say, async ({ dir }, redis) => {
        const around = { dir, env: counters.env, say };
        const memory = await measureMemory(sizes, around);
        const work = await measureWork(quick ? 1_000 : 8_000, around);
        const seconds = (performance.now() - start) / 1_000;
        const facts = { quick, seconds, versions: { node: process.versions.node, redis } };
        const tables = [memoryTable(memory, sizes), workTable(work)];
        return reportOf('capacity', facts, { tables, json: { sizes, ...jsonOf(memory, work) } });
      });
    } finally {
      await counters.close();
    }
  },
};

function memoryTable(memory: Memory, { few, many }: Sizes): Table {
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

function workTable(work: Work): Table {
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

function jsonOf(memory: Memory, work: Work): Report['json'] {
  return {
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
  };
}
