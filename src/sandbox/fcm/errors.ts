import type { FieldViolation, Refuse } from '../loopback/answers.ts';
import type { Wording } from '../loopback/exchange.ts';
import { quotaWords } from './quota.ts';

/** Google's code (google.rpc.Code) and message for each HTTP status. */
const STATUS: Readonly<Record<number, readonly [status: string, message: string]>> = {
  400: ['INVALID_ARGUMENT', 'Request contains an invalid argument.'],
  401: ['UNAUTHENTICATED', 'Request had invalid authentication credentials. Expected OAuth 2 access token.'],
  403: ['PERMISSION_DENIED', 'The caller does not have permission'],
  404: ['NOT_FOUND', 'Requested entity was not found.'],
  429: ['RESOURCE_EXHAUSTED', 'Quota exceeded.'],
  500: ['INTERNAL', 'Internal error encountered.'],
  503: ['UNAVAILABLE', 'The service is currently unavailable.'],
  504: ['DEADLINE_EXCEEDED', 'Deadline expired before operation could complete.'],
};

/** The body of a refusal: a `google.rpc.Status`, with an `FcmError` if FCM itself refuses. */
function fcmErrorBody(answer: Refuse, projectId: string): string {
  const { status, reason, message, violations } = answer;
  const quota = quotaWords(answer, projectId);
  const [word, sentence] = STATUS[status] ?? ['UNKNOWN', 'Unknown error.'];
  const details = [
    ...(reason === undefined
      ? []
      : [{ '@type': 'type.googleapis.com/google.firebase.fcm.v1.FcmError', errorCode: reason }]),
    ...(violations === undefined
      ? []
      : [{ '@type': 'type.googleapis.com/google.rpc.BadRequest', fieldViolations: violations }]),
    ...quota.details,
  ];
  const error = { code: status, message: message ?? quota.message ?? sentence, status: word };
  return JSON.stringify({ error: details.length === 0 ? error : { ...error, details } }, null, 2);
}

/** The word of a refusal: FCM's own, else that of Google's front end; undefined where the answer has no body of Google's. */
export function fcmReason({ status, reason, emptyBody, body }: Refuse): string | undefined {
  if (emptyBody === true || body !== undefined) return undefined;
  return reason ?? STATUS[status]?.[0];
}

/** For a request that is no message: Google's front end refuses it before FCM sees it, so there is no `FcmError`. */
export function malformed(violations: readonly FieldViolation[]): Refuse {
  const [first] = violations;
  if (!first) return { kind: 'refuse', status: 400, message: 'Invalid JSON payload received.' };
  return { kind: 'refuse', status: 400, message: first.description, violations };
}

/** FCM's refusal of a message with an invalid field. */
export function invalidArgument(message: string, field: string): Refuse {
  const violations = [{ field, description: message }];
  return { kind: 'refuse', status: 400, reason: 'INVALID_ARGUMENT', message, violations };
}

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
