import type { z } from 'zod';

/** How a notification names a device of one provider. Known to producers too, which load no provider: it needs zod only. */
export interface DeviceKind<P extends string = string> {
  /** Checks one entry of a notification's `devices`; its faults never repeat the token. */
  readonly schema: z.ZodObject<{ platform: z.ZodLiteral<P>; token: z.ZodString }, z.core.$strict>;
  /** Keys of `data` that the provider keeps for itself; with a `*` at the end, all keys that begin so. */
  readonly reservedDataKeys: readonly string[];
}
