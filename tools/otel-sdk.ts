import { registerHooks } from 'node:module';

/**
 * `node --import`: a program of the clone finds OpenTelemetry's SDK among the packages of tools/. Users install it beside
 * pushpacer; in the clone it would make the first install half as large again.
 */
registerHooks({
  resolve: (name, context, next) =>
    next(name, name === '@opentelemetry/sdk-node' ? { ...context, parentURL: import.meta.url } : context),
});
