import { tokenOf } from '../notification/device.ts';
import { resultName, type Result } from '../notification/outcome.ts';
import type { Admission, NotToBeSent } from '../limiter/limiter.ts';
import type { Facts, PassTrace, RequestTrace, Tracing } from '../observe/tracing.ts';
import type { Encoded, Provider, Reply } from '../providers/provider.ts';
import type { Context, PassFacts, ReadyDevice, Watcher } from './context.ts';
import { usedSlot, waitMsOf } from './story.ts';

// What the spans of a pass say, where traces are wanted. Ids, codes and times only: never a token or a text of an alert.

/** Begins and ends the span of each pass, and writes it to the progress, so that the next pass can link to it. */
export function createPassTracer(tracing: Tracing): Watcher {
  return {
    taken(context) {
      context.trace = beginTrace(tracing, context);
    },
    ended(context, result, end) {
      const { trace } = context;
      if (trace === undefined) return;
      endTrace(trace, context, result, end);
      context.progress = { ...context.progress, traceparent: trace.traceparent };
    },
  };
}

function beginTrace(tracing: Tracing, context: Context): PassTrace | undefined {
  const { jobId, notification, before, origin, stalls } = context;
  return tracing.pass({
    id: notification.id === '' ? jobId : notification.id,
    recipientId: notification.recipientId,
    producer: origin,
    before: before.traceparent,
    facts: {
      'pushpacer.category': notification.category,
      'pushpacer.requeues': before.requeues,
      'pushpacer.stalls': stalls === 0 ? undefined : stalls,
    },
  });
}

function endTrace(
  trace: PassTrace,
  context: Context,
  result: Result,
  { target, endedAt, attempts, waitedMs, slotLateMs, wokenLateMs }: PassFacts,
): void {
  const slot = usedSlot(context);
  const waitMs = waitMsOf(result);
  const isError = result.kind === 'dead-letter' || context.error !== undefined;
  const reason = result.kind === 'dead-letter' ? result.reason : undefined;
  const facts: Facts = {
    'pushpacer.result': resultName(result),
    'pushpacer.platform': target.platform,
    'pushpacer.app': target.app,
    'pushpacer.rule': 'rule' in result ? result.rule : undefined,
    'pushpacer.code': 'code' in result ? result.code : undefined,
    'pushpacer.reason': reason,
    'pushpacer.slot': slotText(slot?.at ?? (result.kind === 'requeued' ? endedAt + result.waitMs : undefined)),
    // Measured from the slot until which the job was put back, as in the metrics, even if that slot was missed.
    'pushpacer.lateness_ms': slotLateMs ?? slot?.lateMs,
    'pushpacer.woken_late_ms': wokenLateMs,
    'pushpacer.put_back_ms': waitMs,
    'pushpacer.waited_ms': waitedMs,
    'pushpacer.attempts': attempts,
    'pushpacer.silenced': context.isSilent ? true : undefined,
  };
  trace.end(facts, isError ? (reason ?? 'unexpected-error') : undefined);
}

function slotText(at: number | undefined): string | undefined {
  return at === undefined ? undefined : new Date(Math.round(at)).toISOString();
}

export function admissionFacts(answer: Admission | NotToBeSent): Facts {
  return {
    'pushpacer.answer': answer.kind === 'ended' ? answer.how : answer.kind,
    'pushpacer.rule': 'rule' in answer ? answer.rule : undefined,
    'pushpacer.wait_ms': 'waitMs' in answer ? answer.waitMs : undefined,
    'pushpacer.before': 'before' in answer ? answer.before : undefined,
  };
}

export function beginRequest(trace: PassTrace, { label, device, encoded, permit }: ReadyDevice): RequestTrace {
  const { platform, app } = device;
  const facts = { 'pushpacer.device': label, 'pushpacer.platform': platform, 'pushpacer.app': app };
  const waits = permit === undefined ? { 'pushpacer.waits_for_stream': true } : {};
  return trace.request({ template: templateOf(encoded, tokenOf(device)), facts: { ...facts, ...waits } });
}

/** `/3/device/{token}`. For a device that names its own server (web push), the whole path is secret. */
function templateOf({ path, origin }: Encoded, token: string): string {
  if (origin !== undefined) return '/{endpoint}';
  return path.replaceAll(token, '{token}').replaceAll(encodeURIComponent(token), '{token}');
}

export function endRequest(span: RequestTrace, { provider, encoded }: ReadyDevice, reply: Reply): void {
  const host = encoded.origin === undefined ? hostOf(provider) : new URL(encoded.origin).host;
  span.end(host, reply.meaning === 'accepted' ? undefined : reply.code);
}

/** The host to which the provider sends, if there is one for all devices. */
function hostOf(provider: Provider): string | undefined {
  return provider.reach().find(({ isSignIn }) => isSignIn !== true)?.host;
}
