import type { ProviderWords } from '../answers/provider-words.ts';
import type { Refuse } from '../loopback/answers.ts';
import { invalidArgument } from './errors.ts';
import { FCM_REASONS, isFcmErrorCode, type FcmReason } from './reasons.ts';

const usual: Readonly<Record<number, FcmReason>> = {
  400: 'INVALID_ARGUMENT',
  401: 'UNAUTHENTICATED',
  403: 'SENDER_ID_MISMATCH',
  404: 'UNREGISTERED',
  429: 'QUOTA_EXCEEDED',
  500: 'INTERNAL',
  503: 'UNAVAILABLE',
};

export const FCM_WORDS: ProviderWords = {
  name: 'FCM',
  reasons: FCM_REASONS,
  usual,
  refusal: (reason, field) => fcmRefusal(reason as FcmReason, field),
};

function fcmRefusal(reason: FcmReason, field: string | undefined): Refuse {
  const status = FCM_REASONS[reason];
  if (reason === 'INVALID_ARGUMENT' && field !== undefined) return invalidArgument(MESSAGES[field] ?? INVALID, field);
  if (reason === 'QUOTA_EXCEEDED') return { kind: 'refuse', status, reason, quota: 'device' };
  if (reason === 'RESOURCE_EXHAUSTED') return { kind: 'refuse', status, quota: 'project' };
  return isFcmErrorCode(reason) ? { kind: 'refuse', status, reason } : { kind: 'refuse', status };
}

const INVALID = 'Request contains an invalid argument.';
const MESSAGES: Readonly<Record<string, string>> = {
  'message.token': 'The registration token is not a valid FCM registration token',
};
