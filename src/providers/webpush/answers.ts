import { parseObject } from '../../domain/json.ts';
import { redact } from '../../notification/redact.ts';
import type { AnswerTables, Push, Reply, ReplyRow } from '../provider.ts';
import { BAD_TOKEN, FORBIDDEN, GONE, REJECTED, SERVER_ERROR, tableReply, TOO_MANY } from '../replies.ts';
import type { Answered } from '../sender/result.ts';

/**
 * The push service takes no more pushes from this sender for now. Chrome's does this for days to a website that people find
 * disruptive, and then takes 1,000 a minute or more (developer.chrome.com/blog/web-push-rate-limits, of 2026-01-06, read on
 * 2026-11-26). One answer may be about one subscription (RFC 8030), so the breaker opens only if 20 recipients get it.
 */
const LIMIT: ReplyRow = { ...TOO_MANY, suspect: 'quota', isLimit: true };

/** What the answers of push services mean. */
export const WEBPUSH_ANSWERS: AnswerTables = {
  accepted: { meaning: 'accepted', code: '201', alerted: 'yes' },
  /**
   * The browser subscribed with another public key. Apple says this in its `reason`
   * (developer.apple.com/documentation/usernotifications/sending-web-push-notifications-in-web-apps-and-browsers), Google and
   * Mozilla in a sentence, which becomes `other-key`.
   */
  words: { VapidPkHashMismatch: BAD_TOKEN, 'other-key': BAD_TOKEN },
  /** Each push service has its own words in its answers, so the status decides (RFC 8030, section 8). */
  statuses: {
    400: REJECTED,
    /**
     * The VAPID token is refused. One such answer proves nothing about other pushes: anybody can make up a subscription whose
     * server answers so. The breaker of this push service opens only if 20 different recipients in a row get this answer.
     */
    401: FORBIDDEN,
    403: FORBIDDEN,
    404: GONE,
    405: REJECTED,
    /** Microsoft answers 406 where others answer 429. */
    406: LIMIT,
    410: GONE,
    413: REJECTED,
    429: LIMIT,
    500: SERVER_ERROR,
    502: SERVER_ERROR,
    503: SERVER_ERROR,
    504: SERVER_ERROR,
  },
  /** Also for redirects, which are never followed. */
  unknown: SERVER_ERROR,
  signIn: {}, // the token is made locally, so there is no sign-in that could be refused
};

/** An answer of a push service as a Reply. `nowMs`: epoch milliseconds, for a Retry-After that is a date. */
export function readWebpushAnswer(
  answer: Answered,
  { notification }: Pick<Push, 'notification'>,
  nowMs: number,
): Reply {
  const { status, body } = answer;
  // RFC 8030 has 201, and 202 with a receipt; Microsoft documents 200. None of the documents mentions a body.
  if (status >= 200 && status < 300) return WEBPUSH_ANSWERS.accepted;
  const reply = tableReply(WEBPUSH_ANSWERS, answer, wordOf(body), { notification, nowMs });
  const sentence = sentenceOf(answer);
  return sentence === undefined ? reply : { ...reply, detail: redact(sentence, notification) };
}

/** "the VAPID credentials … do not correspond to the credentials used to create the subscriptions"; "VAPID public key mismatch" */
const OTHER_KEY_SENTENCE = /credentials used to create the subscription|VAPID public key mismatch/i;

/** The code in an answer: Apple's `reason`; Mozilla's `errno`, as `errno-109`; `other-key`. */
function wordOf(body: string): string | undefined {
  if (OTHER_KEY_SENTENCE.test(body)) return 'other-key';
  const { reason, errno } = parseObject(body);
  if (typeof reason === 'string') return reason;
  return typeof errno === 'number' && Number.isInteger(errno) ? `errno-${errno}` : undefined;
}

/** The sentence that Mozilla and Microsoft write for a person, and Google in place of any code. */
function sentenceOf({ headers, body }: Answered): string | undefined {
  const { message } = parseObject(body);
  if (typeof message === 'string') return message;
  const described = headers['x-wns-error-description'];
  if (typeof described === 'string') return described;
  const isText = headers['content-type']?.startsWith('text/plain') === true && body.trim() !== '';
  return isText ? body.trim() : undefined;
}
