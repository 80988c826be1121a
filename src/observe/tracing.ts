import { hash } from 'node:crypto';
import type * as OpenTelemetry from '@opentelemetry/api';
import type { Attributes, Link, Span, SpanContext, TraceState } from '@opentelemetry/api';
import { originOf, TRACEPARENT, type Origin } from '../notification/story.ts';

/**
 * Traces by OpenTelemetry: the spans of producers and of passes, which docs/tracing.md explains. tracing-sdk.ts starts the SDK
 * for them, in the programs of this project. `@opentelemetry/api` is loaded only when traces are wanted, and it may be missing.
 * Nothing private is passed to this file except the recipient, which it hashes.
 *
 * Producers use this file too, in other people's apps, so it imports no logger.
 */

/** What a job contains about the span that enqueued it: W3C Trace Context. Empty if there is no span. */
export type Carried = Pick<Origin, 'traceparent' | 'tracestate'>;

/** The attributes of a span; an undefined one is left out. */
export type Facts = Readonly<Record<string, string | number | boolean | undefined>>;

/** Begins spans. It exists only if traces are wanted. */
export interface Tracing {
  /** Runs the work in a span of a producer; `carried` is to be written into the jobs. `ids`: the ids of the notifications. */
  enqueue<T>(ids: readonly string[], work: (carried: Carried) => Promise<T>): Promise<T>;
  /** Begins the span of a pass. Undefined if the sampler leaves it out. */
  pass(about: PassStart): PassTrace | undefined;
  /** Runs the work in the trace that the headers of the caller's request name, unless the work runs in a trace already. */
  continuing<T>(headers: { readonly [Name in keyof Carried]?: string | undefined }, work: () => T): T;
}

export interface PassStart {
  readonly id: string;
  /** Hashed before it is written; empty if the notification is invalid. */
  readonly recipientId: string;
  /** The producer's span. */
  readonly producer: Carried;
  /** The `traceparent` of the pass before this one. */
  readonly before: string | undefined;
  readonly facts: Facts;
}

/** The span of a pass. */
export interface PassTrace {
  readonly traceId: string;
  /** The name of this span; the next pass links to it. */
  readonly traceparent: string;
  /** A span inside this span; it ends with the work. */
  during<T>(name: string, work: Promise<T>, factsOf: (found: T) => Facts): void;
  /** Begins the span of a request to a provider. */
  request(about: RequestStart): RequestTrace;
  /** @param failure a short code, if the notification became a dead letter */
  end(facts: Facts, failure?: string): void;
}

export interface RequestStart {
  /** `/3/device/{token}`: the path, with words in place of everything private. */
  readonly template: string;
  readonly facts: Facts;
}

/** The span of a request. */
export interface RequestTrace {
  /** Called with the HTTP status of each answer: after expired credentials there is a second answer. */
  readonly onStatus: (status: number) => void;
  /**
   * @param host where the request was sent, with the port: `api.push.apple.com:443`; undefined if there was no connection yet
   * @param failure the code of a reply that is not an acceptance
   */
  end(host: string | undefined, failure: string | undefined): void;
}

export interface TracingOptions {
  /** The name of the queue in traces. */
  readonly destination: string;
  /** Whether passes are children of the producer's span. Default: each pass is a trace of its own, with a link to that span. */
  readonly isParent?: boolean;
}

type Environment = Readonly<Record<string, string | undefined>>;
export type Api = typeof OpenTelemetry;
/** Called with a line for the log. */
export type Warn = (message: string) => void;

export const TRACER = 'pushpacer';
/**
 * Variables that do not ask for traces: this project's own variables say only how to trace, and Kubernetes sets the others for
 * every service, so also for a service whose name begins with `otel`.
 */
const NO_WISH = /^OTEL_PUSHPACER_|_SERVICE_(HOST|PORT)(_|$)|_PORT(_\d+_(TCP|UDP|SCTP)(_|$)|$)/;

/**
 * Whether traces are wanted: any variable `OTEL_…` has a value, and OTEL_SDK_DISABLED is not true.
 *
 * @param asked what the caller's own option says
 */
export function wantsTraces(env: Environment, asked?: boolean): boolean {
  if (env['OTEL_SDK_DISABLED']?.trim().toLowerCase() === 'true') return false;
  if (asked !== undefined) return asked;
  return Object.entries(env).some(
    ([name, value = '']) => name.startsWith('OTEL_') && !NO_WISH.test(name) && value.trim() !== '',
  );
}

let loading: Promise<Api | undefined> | undefined;

/** Loads `@opentelemetry/api`. Undefined if it is missing: the first caller is warned, and the program goes on untraced. */
export function loadApi(warn: Warn): Promise<Api | undefined> {
  return (loading ??= import('@opentelemetry/api').catch((error: unknown) => {
    warn(`${NO_API} (${error instanceof Error ? error.message : String(error)})`);
    return undefined;
  }));
}

const NO_API =
  'a variable OTEL_… asks for traces, but @opentelemetry/api cannot be loaded: there are none; install it beside pushpacer ' +
  '(npm install @opentelemetry/api @opentelemetry/sdk-node), or take the variable away';

/**
 * Makes spans by the tracer provider that this process has registered, or registers later; without one nothing is recorded.
 * Undefined if `@opentelemetry/api` is missing. Call it only if `wantsTraces` is true.
 */
export async function openTracing(options: TracingOptions, warn: Warn): Promise<Tracing | undefined> {
  const api = await loadApi(warn);
  return api && createTracing(api, options);
}

function createTracing(api: Api, { destination, isParent = false }: TracingOptions): Tracing {
  const { SpanKind, trace, context, ROOT_CONTEXT } = api;
  const tracer = trace.getTracer(TRACER);
  const queue = { 'messaging.system': 'bullmq', 'messaging.destination.name': destination };

  function fail(span: Span, code: string): void {
    span.setAttribute('error.type', code).setStatus({ code: api.SpanStatusCode.ERROR, message: code });
  }

  /** The span context of these fields; undefined if they contain none. */
  function spanContextOf({ traceparent, tracestate }: Carried): SpanContext | undefined {
    const [, traceId = '', spanId = '', flags = ''] = TRACEPARENT.exec(traceparent ?? '') ?? [];
    const found = { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
    if (!api.isSpanContextValid(found)) return undefined;
    return tracestate === undefined ? found : { ...found, traceState: asGiven(tracestate) };
  }

  function linkTo(carried: Carried, what: 'producer' | 'previous-pass'): Link[] {
    const found = spanContextOf(carried);
    return found === undefined ? [] : [{ context: found, attributes: { 'pushpacer.link': what } }];
  }

  function passTrace(span: Span): PassTrace {
    const inside = trace.setSpan(ROOT_CONTEXT, span);
    const spanContext = span.spanContext();
    return {
      traceId: spanContext.traceId,
      traceparent: traceparentOf(spanContext),
      during(name, work, factsOf) {
        const child = tracer.startSpan(name, undefined, inside);
        work.then(
          (found) => child.setAttributes(factsOf(found)).end(),
          (error: unknown) => {
            fail(child, errorName(error));
            child.end();
          },
        );
      },
      request({ template, facts }) {
        const attributes = { 'http.request.method': 'POST', 'url.template': template, ...facts };
        const child = tracer.startSpan(`POST ${template}`, { kind: SpanKind.CLIENT, attributes }, inside);
        return requestTrace(child, template);
      },
      end(facts, failure) {
        span.setAttributes(facts);
        if (failure !== undefined) fail(span, failure);
        span.end();
      },
    };
  }

  function requestTrace(span: Span, template: string): RequestTrace {
    let requests = 0;
    return {
      onStatus(status) {
        requests += 1;
        span.setAttribute('http.response.status_code', status);
        if (requests > 1) span.setAttribute('http.request.resend_count', requests - 1);
      },
      end(host, failure) {
        if (host !== undefined) span.setAttributes(serverOf(host, template));
        if (failure !== undefined) fail(span, failure);
        span.end();
      },
    };
  }

  return {
    async enqueue(ids, work) {
      const [id] = ids;
      const attributes = {
        ...queue,
        ...{ 'messaging.operation.name': 'enqueue', 'messaging.operation.type': 'send' },
        ...(ids.length === 1 ? { 'messaging.message.id': id } : { 'messaging.batch.message_count': ids.length }),
      };
      const span = tracer.startSpan(`enqueue ${destination}`, { kind: SpanKind.PRODUCER, attributes });
      const carried = carriedOf(span.spanContext(), api);
      try {
        return await context.with(trace.setSpan(context.active(), span), () => work(carried));
      } catch (error) {
        fail(span, errorName(error));
        throw error;
      } finally {
        span.end();
      }
    },
    pass({ id, recipientId, producer, before, facts }) {
      const parent = isParent ? spanContextOf(producer) : undefined;
      const links = [
        ...(parent === undefined ? linkTo(producer, 'producer') : []),
        ...(before === undefined ? [] : linkTo({ traceparent: before }, 'previous-pass')),
      ];
      const attributes = {
        ...queue,
        ...{ 'messaging.operation.name': 'process', 'messaging.operation.type': 'process' },
        'messaging.message.id': id,
        ...facts,
      };
      const around = parent === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, parent);
      const options = { kind: SpanKind.CONSUMER, links, attributes };
      const span = tracer.startSpan(`process ${destination}`, options, around);
      if (!span.isRecording()) return undefined;
      if (recipientId !== '') span.setAttribute('pushpacer.recipient_hash', hashOf(recipientId));
      return passTrace(span);
    },
    continuing(headers, work) {
      const active = trace.getSpanContext(context.active());
      const caller = active === undefined ? spanContextOf(originOf(headers)) : undefined;
      return caller === undefined ? work() : context.with(trace.setSpanContext(context.active(), caller), work);
    },
  };
}

/** The trace state as it was given: it is only passed on. */
function asGiven(tracestate: string): TraceState {
  const state: TraceState = { serialize: () => tracestate, get: () => undefined, set: () => state, unset: () => state };
  return state;
}

function traceparentOf({ traceId, spanId, traceFlags }: SpanContext): string {
  return `00-${traceId}-${spanId}-${(traceFlags & 0xff).toString(16).padStart(2, '0')}`;
}

function carriedOf(spanContext: SpanContext, api: Api): Carried {
  if (!api.isSpanContextValid(spanContext)) return {};
  const tracestate = spanContext.traceState?.serialize() ?? '';
  return { traceparent: traceparentOf(spanContext), ...(tracestate !== '' && { tracestate }) };
}

/** The same hash for the same recipient. A person who has a list of all recipients can find out whose hash it is. */
function hashOf(recipientId: string): string {
  return hash('sha256', recipientId, 'hex').slice(0, 16);
}

/** @param host `api.push.apple.com:443` */
function serverOf(host: string, template: string): Attributes {
  const { origin, hostname, port } = new URL(`https://${host}`);
  return {
    'server.address': hostname,
    'server.port': port === '' ? 443 : Number(port),
    'url.full': origin + template.replaceAll(/\{[^}]*\}/g, 'REDACTED'),
  };
}

/** Only the kind of an error, since its message may contain something private. */
function errorName(error: unknown): string {
  return error instanceof Error ? error.name : 'thrown';
}
