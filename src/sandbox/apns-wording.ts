import type { Refuse } from './answers.ts';
import type { Wording } from './exchange.ts';

/** Answers as APNs words them: `apns-id` on each, and `{reason, timestamp?}` in the body of a refusal. */
export function apnsWording(apnsId: string): Wording {
  return {
    accepted: ({ body = '' }) => ({ headers: { 'apns-id': apnsId }, text: body }),
    refused: (answer) => ({
      headers: {
        'apns-id': apnsId,
        ...(answer.retryAfter === undefined ? {} : { 'retry-after': answer.retryAfter }),
      },
      text: refusalBody(answer),
    }),
  };
}

function refusalBody({ reason, timestamp, emptyBody, body }: Refuse): string {
  return body ?? (emptyBody === true ? '' : JSON.stringify({ reason, timestamp }));
}
