import type { z } from 'zod';

/** How a notification names a device of one provider. Producers use it too and load no provider, so it may import only zod. */
export interface DeviceKind<P extends string = string, Fields extends z.ZodRawShape = z.ZodRawShape> {
  /** Checks one entry of a notification's `devices`; its faults never repeat a secret. Every field but the platform is secret. */
  readonly schema: z.ZodObject<{ platform: z.ZodLiteral<P> } & Fields, z.core.$strict>;
  /** What tells this device from all others of the platform: its token, or what the provider has in place of one. */
  tokenOf(device: z.output<z.ZodObject<{ platform: z.ZodLiteral<P> } & Fields>>): string;
  /** Keys of `data` that the provider reserves. A `*` at the end stands for every key that begins like this. */
  readonly reservedDataKeys: readonly string[];
}

/** The kind of a platform whose devices have a token. */
export type TokenKind<P extends string> = DeviceKind<P, { token: z.ZodString }>;
