import type { Refuse } from '../loopback/answers.ts';

/** The part of a refusal's body that is about the exceeded quota. */
export interface QuotaWords {
  /** The message for a person. Absent: FCM's general one. */
  readonly message?: string;
  /** Entries of the error's `details`. */
  readonly details: readonly object[];
}

/**
 * FCM's words for the quota that a refusal names.
 *
 * The names of the quotas are those of firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode ("Device message rate
 * exceeded", "Message rate exceeded"), which promises a `google.rpc.QuotaFailure` with `QUOTA_EXCEEDED`. The subject
 * `project:<id>` is the one of google/rpc/error_details.proto. No real answer for a device was found published: its
 * subject is an assumption.
 *
 * A project's quota is also kept by Google's front end, before FCM sees the message: no `FcmError` then and no
 * `QuotaFailure`, but an `ErrorInfo`. Its sentence and its fields are those of a real answer that a user
 * published at github.com/firebase/firebase-admin-go (number 719). A refusal without a `reason` is that one.
 */
export function quotaWords({ quota, reason }: Pick<Refuse, 'quota' | 'reason'>, projectId: string): QuotaWords {
  if (quota === undefined) return { details: [] };
  if (quota === 'device') return { details: [quotaFailure('device', 'Device message rate exceeded')] };
  if (reason !== undefined) return { details: [quotaFailure(`project:${projectId}`, 'Message rate exceeded')] };
  return {
    message:
      "Quota exceeded for quota metric 'Send requests' and limit 'Send requests per minute' of service " +
      `'fcm.googleapis.com' for consumer 'project_number:${PROJECT_NUMBER}'.`,
    details: [ERROR_INFO, HELP],
  };
}

function quotaFailure(subject: string, description: string): object {
  return { '@type': 'type.googleapis.com/google.rpc.QuotaFailure', violations: [{ subject, description }] };
}

const PROJECT_NUMBER = '100000000001';
const ERROR_INFO = {
  '@type': 'type.googleapis.com/google.rpc.ErrorInfo',
  reason: 'RATE_LIMIT_EXCEEDED',
  domain: 'googleapis.com',
  metadata: {
    quota_limit_value: '600000',
    consumer: `projects/${PROJECT_NUMBER}`,
    quota_metric: 'fcm.googleapis.com/send_requests',
    quota_unit: '1/min/{project}',
    service: 'fcm.googleapis.com',
    quota_location: 'global',
    quota_limit: 'SendsPerMinutePerProject',
  },
};
const HELP = {
  '@type': 'type.googleapis.com/google.rpc.Help',
  links: [
    {
      description: 'Request a higher quota limit.',
      url: 'https://cloud.google.com/docs/quotas/help/request_increase',
    },
  ],
};
