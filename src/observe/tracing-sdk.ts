import { withoutCredentials } from '../notification/redact.ts';
import { within } from '../domain/time.ts';
import { createSparing } from './log.ts';
import { loadApi, TRACER, wantsTraces, type Api, type Warn } from './tracing.ts';

/** How much time the last spans have to be exported when a program stops. */
const FLUSH_MS = 2_000;
/** A failed export of spans is logged at most once in this time. */
const TROUBLE_EVERY_MS = 60_000;
/**
 * The detector `process` is left out: it writes the command line to every span, and the command line of `pushpacer enqueue`
 * contains tokens and the texts of alerts.
 */
const DETECTORS = 'env,host,os,serviceinstance';

/**
 * Starts OpenTelemetry's SDK in a program of pushpacer, as the variables of the environment say, for traces only. Does nothing
 * if no variable asks for traces, or if a tracer provider is registered already (`node --import`). Never rejects.
 *
 * @param service the program's name in traces, unless a variable sets another one
 * @returns a function that exports the last spans, within 2 s, and ends the SDK
 */
export async function startTracing(env: NodeJS.ProcessEnv, service: string, warn: Warn): Promise<() => Promise<void>> {
  const nothing = (): Promise<void> => Promise.resolve();
  if (!wantsTraces(env)) return nothing;
  const api = await loadApi(warn);
  if (api === undefined || isRegistered(api)) return nothing;
  try {
    const { NodeSDK } = (await import(SDK)) as SdkModule;
    env['OTEL_NODE_RESOURCE_DETECTORS'] ??= DETECTORS;
    if (env['OTEL_LOG_LEVEL'] === undefined) logTroubles(api, warn);
    const isNamed = /(^|,)\s*service\.name\s*=/.test(env['OTEL_RESOURCE_ATTRIBUTES'] ?? '');
    const serviceName = env['OTEL_SERVICE_NAME'] !== undefined || isNamed ? {} : { serviceName: service };
    const sdk = new NodeSDK({ ...serviceName, metricReaders: [], logRecordProcessors: [] });
    sdk.start();
    return async () => {
      await within(
        sdk.shutdown().catch(() => undefined), // the error was logged
        FLUSH_MS,
      );
    };
  } catch (error) {
    warn(`${NO_SDK} (${error instanceof Error ? error.message : String(error)})`);
    return nothing;
  }
}

/** An optional package, which users install beside pushpacer: so its types are missing when this file is compiled. */
const SDK: string = '@opentelemetry/sdk-node';

/** The part of the SDK that is used. */
interface SdkModule {
  readonly NodeSDK: new (options: {
    readonly serviceName?: string;
    readonly metricReaders: readonly never[];
    readonly logRecordProcessors: readonly never[];
  }) => { start(): void; shutdown(): Promise<void> };
}

const NO_SDK =
  'a variable OTEL_… asks for traces, but @opentelemetry/sdk-node cannot be started, and no other tracer provider is registered: ' +
  'there are none; install it beside pushpacer (npm install @opentelemetry/sdk-node), or start your own with node --import';

function isRegistered({ trace }: Api): boolean {
  // The API's own provider delegates to the registered provider, if there is one.
  const provider = trace.getTracerProvider() as { readonly getDelegateTracer?: (name: string) => unknown };
  return provider.getDelegateTracer === undefined || provider.getDelegateTracer(TRACER) !== undefined;
}

/** Logs what the SDK reports. Otherwise spans that cannot be exported would be lost without a message. */
function logTroubles({ diag, DiagLogLevel }: Api, warn: Warn): void {
  const sparing = createSparing(TROUBLE_EVERY_MS);
  const say = (reported: string): void => {
    const repeats = sparing('');
    if (repeats !== undefined) warn(`${TROUBLE}: ${withoutCredentials(reported).slice(0, MOST_TEXT)}`);
  };
  const ignore = (): void => undefined;
  diag.setLogger(
    { error: say, warn: say, info: ignore, debug: ignore, verbose: ignore },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
}

const MOST_TEXT = 300;
const TROUBLE =
  'OpenTelemetry reports a trouble, which is logged once a minute; spans may be lost, notifications are not';
