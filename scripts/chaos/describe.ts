import type { Fault } from './faults.ts';

/** `  12.3 s  worker 4 is stopped for 7.1 s`: one line of the plan. */
export function describeFault(fault: Fault): string {
  return `${seconds(fault.atMs).padStart(8)}  ${what(fault)}`;
}

function what(fault: Fault): string {
  switch (fault.kind) {
    case 'kill-worker':
      return `worker ${fault.worker} is killed, and replaced`;
    case 'restart-worker':
      return `worker ${fault.worker} is told to stop, and replaced`;
    case 'stop-worker':
      return `worker ${fault.worker} is frozen for ${seconds(fault.forMs)}`;
    case 'kill-redis':
      return `Redis is killed, and comes back after ${seconds(fault.forMs)}`;
    case 'pause-redis':
      return `Redis answers no client for ${seconds(fault.forMs)}`;
    case 'cut-clients':
      return 'Redis cuts every connection';
    case 'answers':
      return `${fault.platform} for ${seconds(fault.forMs)}: ${fault.name} (${percents(fault)})`;
    case 'go-away':
      return `${fault.platform} for ${seconds(fault.forMs)}: a GOAWAY every ${fault.every} requests`;
    case 'drop-connections':
      return `${fault.platform}: every connection is reset`;
    case 'close-idle':
      return `${fault.platform}: every idle connection is closed`;
    case 'odd-device':
      return `${fault.platform}: one device is answered ${fault.word}`;
    case 'revoke-key':
      return `${fault.platform} for ${seconds(fault.forMs)}: the workers' credentials are refused`;
    case 'provider-down':
      return `${fault.platform} for ${seconds(fault.forMs)}: the server is down`;
  }
}

function percents({ rates }: Extract<Fault, { kind: 'answers' }>): string {
  return rates.map(({ rate }) => `${(rate * 100).toFixed(1)} %`).join(', ');
}

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`;
}
