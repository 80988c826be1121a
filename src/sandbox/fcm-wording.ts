import type { Wording } from './exchange.ts';
import { fcmErrorBody } from './fcm-errors.ts';

/** Answers as FCM words them: JSON, the message's name where it was accepted. */
export function fcmWording(messageName: string, projectId: string): Wording {
  return {
    accepted: ({ body = JSON.stringify({ name: messageName }, null, 2) }) => content(body, {}),
    refused: (answer) => {
      const text = answer.body ?? (answer.emptyBody === true ? '' : fcmErrorBody(answer, projectId));
      return content(text, answer.retryAfter === undefined ? {} : { 'retry-after': answer.retryAfter });
    },
  };
}

function content(text: string, more: Readonly<Record<string, string>>) {
  return {
    headers: {
      'content-type': 'application/json; charset=UTF-8',
      'content-length': String(Buffer.byteLength(text)),
      ...more,
    },
    text,
  };
}
