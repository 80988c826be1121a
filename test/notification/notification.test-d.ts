import { expectTypeOf } from 'vitest';
import type { z } from 'zod';
import type { alertSchema, liveActivitySchema, notificationSchema } from '../../src/notification/schema.ts';
import type {
  Alert,
  AndroidFields,
  ApnsFields,
  ApnsSound,
  Device,
  FcmFields,
  LiveActivityFields,
  Notification,
  NotificationInput,
  WebpushFields,
} from '../../src/notification/notification.ts';
import type { DEVICE_KINDS } from '../../src/notification/devices/devices.ts';
import type { apnsFieldsSchema, apnsSoundSchema } from '../../src/notification/devices/apns/fields.ts';
import type { webpushFieldsSchema } from '../../src/notification/devices/webpush/fields.ts';
import type { androidFieldsSchema, fcmFieldsSchema } from '../../src/notification/devices/fcm/fields.ts';

// The interfaces say exactly what the schema says, optional fields and `undefined` included. tsc is the test.
expectTypeOf<NotificationInput>().toEqualTypeOf<z.input<typeof notificationSchema>>();
expectTypeOf<Plain<Notification>>().toEqualTypeOf<z.output<typeof notificationSchema>>();
expectTypeOf<Alert>().toEqualTypeOf<z.input<typeof alertSchema>>();
expectTypeOf<Device>().toEqualTypeOf<z.input<(typeof DEVICE_KINDS)[number]['schema']>>();
expectTypeOf<ApnsFields>().toEqualTypeOf<z.input<typeof apnsFieldsSchema>>();
expectTypeOf<ApnsSound>().toEqualTypeOf<z.input<typeof apnsSoundSchema>>();
expectTypeOf<AndroidFields>().toEqualTypeOf<z.input<typeof androidFieldsSchema>>();
expectTypeOf<LiveActivityFields>().toEqualTypeOf<z.input<typeof liveActivitySchema>>();
expectTypeOf<WebpushFields>().toEqualTypeOf<z.input<typeof webpushFieldsSchema>>();
expectTypeOf<FcmFields>().toEqualTypeOf<z.input<typeof fcmFieldsSchema>>();

// The comparison above can fail: it sees an `undefined` more and a field less.
type WithUndefined = Omit<NotificationInput, 'id'> & { id: string | undefined };
expectTypeOf<WithUndefined>().not.toEqualTypeOf<z.input<typeof notificationSchema>>();
expectTypeOf<Required<NotificationInput>>().not.toEqualTypeOf<z.input<typeof notificationSchema>>();
expectTypeOf<{ title?: string; body?: string }>().not.toEqualTypeOf<z.input<typeof alertSchema>>();

/** An interface that extends another one, as one list of fields. */
type Plain<T> = { [Field in keyof T]: T[Field] };
