import type { Table } from '../limiter/table.ts';
import type { CommandStats } from './commands.ts';
import { figuresOf, type Results } from './results.ts';

export function tableOf({ cases }: Results): Table {
  return [
    ['', 'plain BullMQ, jobs/s', 'pushpacer, jobs/s', 'x plain', 'least to most', 'CPU ms/job', 'commands/job'],
    ...cases.map((result) => {
      const { ratio, least, most, plainPerSecond, perSecond, commands, plainCommands, cpuMsPerJob, plainCpuMsPerJob } =
        figuresOf(result);
      return [
        result.case.name,
        wholeOf(plainPerSecond),
        wholeOf(perSecond),
        ratio.toFixed(2),
        `${least.toFixed(2)} to ${most.toFixed(2)}`,
        `${cpuMsPerJob.toFixed(2)} (plain ${plainCpuMsPerJob.toFixed(2)})`,
        `${commands.toFixed(2)} (plain ${plainCommands.toFixed(2)})`,
      ];
    }),
  ];
}

/** What `INFO commandstats` tells of a batch of `jobs`; calls and times of scripts' own commands are in it. */
export function commandTable(title: string, commands: CommandStats, jobs: number): Table {
  return [
    [title, 'calls/job', 'us in Redis/job'],
    ...[...commands].map(([name, { calls, micros }]) => [name, (calls / jobs).toFixed(2), (micros / jobs).toFixed(1)]),
  ];
}

export function wholeOf(value: number): string {
  return Math.round(value).toLocaleString('en');
}
