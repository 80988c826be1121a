import fc from 'fast-check';

/**
 * Odd and long texts, numbers at their edges, and patches of them. A patch writes what the provider's reference allows, since
 * a producer who asks for something else gets it.
 */
const HALVES = ['\ud83d', '\udc69', 'a\ud800b'];
const PIECES = [
  ...[
    'Room 12',
    'Field trip forms are due',
    '👩‍🏫',
    '👨‍👩‍👧‍👦 🇨🇭',
    'é',
    'e\u0301',
    '教師',
    'שלום עולם',
    '\u202eالفصل\u202c',
    'ß',
  ],
  ...[
    '"',
    '\\',
    '\\u0000',
    '\\ud800',
    '%00',
    '</script>',
    '{{',
    "'",
    'null',
    '__proto__',
    'a b',
    '~',
    '\ufeff',
    '\u200d',
  ],
];
const CONTROLS = ['\0', '\n', '\r\n', '\t', '\u0007', '\u001b[2J', '\u007f', '\u0085', '\u2028', '\u2029'];

const joined = (unit: fc.Arbitrary<string>) =>
  fc.array(unit, { minLength: 1, maxLength: 4 }).map((all) => all.join(''));
export const cut = (text: string, most: number): string => Array.from(text).slice(0, most).join('');

/** Any text: short ones mostly, some with control characters, a few long ones, and very few with halves of characters. */
export const anyText = fc.oneof(
  { weight: 120, arbitrary: joined(fc.constantFrom(...PIECES)) },
  { weight: 40, arbitrary: joined(fc.constantFrom(...PIECES, ...CONTROLS)) },
  { weight: 30, arbitrary: fc.string({ unit: 'grapheme', maxLength: 30 }) },

  { weight: 10, arbitrary: fc.tuple(fc.constantFrom(...PIECES), fc.integer({ min: 200, max: 1_500 })).map(filled) },
  { weight: 1, arbitrary: fc.constantFrom(...HALVES) },
);

/** So many characters. */
function filled([piece, size]: [string, number]): string {
  return piece
    .repeat(Math.ceil(size / piece.length))
    .slice(0, size)
    .toWellFormed();
}

/** A text without control characters, as names have to be. */
export const printable = (most: number) =>
  fc
    .oneof(
      { weight: 6, arbitrary: joined(fc.constantFrom(...PIECES)) },
      { weight: 2, arbitrary: fc.stringMatching(/^[!-~]{1,64}$/) },
      { weight: 1, arbitrary: fc.tuple(fc.constantFrom(...PIECES), fc.constant(most)).map(filled) },
    )
    .map((text) => cut(text, most));

export const count = fc.oneof(fc.constantFrom(0, 1, 99, 2_147_483_647), fc.nat());
export const share = fc.oneof(
  fc.constantFrom(0, 1, 0.5, -0, 5e-324, 1 - Number.EPSILON),
  fc.double({ min: 0, max: 1, noNaN: true }),
);
export const label = fc.stringMatching(/^[A-Za-z0-9_.~%-]{1,50}$/);
export const color = fc.stringMatching(/^#[0-9a-fA-F]{6}$/);
export const url = fc.stringMatching(/^[a-z0-9/._~-]{0,60}$/).map((path) => `https://example.com/${path}`);
const duration = fc.constantFrom('0s', '3s', '3.5s', '0.000000001s', '2419200s');
const number = fc.oneof(
  fc.constantFrom(-0, 0, 1e21, 1e-7, Number.MAX_SAFE_INTEGER, -1.5, Number.MAX_VALUE),
  fc.integer(),
);
export const name = fc.oneof(
  fc.constantFrom('threadId', 'form', 'a.b', 'From', 'agcm', 'title', 'body', ''),
  anyText.map((text) => cut(text, 30)),
);

export const { json } = fc.letrec<{ json: unknown; leaf: unknown }>((tie) => ({
  leaf: fc.oneof(
    { weight: 80, arbitrary: anyText.map((text) => cut(text, 60)) },
    { weight: 40, arbitrary: number },
    { weight: 20, arbitrary: fc.boolean() },
    { weight: 1, arbitrary: fc.constant(null) },
  ),
  json: fc.oneof(
    { maxDepth: 3, depthSize: 'small' },
    { weight: 6, arbitrary: tie('leaf') },
    { weight: 1, arbitrary: fc.array(tie('json'), { maxLength: 3 }) },
    { weight: 1, arbitrary: fc.dictionary(name, tie('json'), { maxKeys: 3 }) },
  ),
}));

/** Any of the fields, at random. */
export const some = <T>(fields: { [Name in keyof T]: fc.Arbitrary<T[Name]> }) =>
  fc.record(fields, { requiredKeys: [] });
/** `null` removes it from what is patched. */
const orNull = <T>(value: fc.Arbitrary<T>) => fc.option(value, { freq: 6 });
export const seldom = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 5 });

/** Keys of an app, and what Apple has no field for here. */
export const custom = fc.dictionary(fc.constantFrom('acme1', 'acme2', 'deep'), orNull(json), { maxKeys: 2 });
const apsPatch = some({
  'filter-criteria': printable(20),
  'thread-id': orNull(printable(20)),
  category: orNull(printable(20)),
  sound: orNull(
    fc.oneof(
      fc.constant('bell.caf'),
      fc.record({ name: fc.constant('default'), critical: fc.constant(1), volume: share }),
    ),
  ),
  badge: orNull(count),
  'relevance-score': orNull(share),
  'content-available': fc.constant(1),
  'mutable-content': orNull(fc.constantFrom(0, 1)),
  alert: some({ 'launch-image': printable(20), 'subtitle-loc-key': printable(20), 'action-loc-key': printable(20) }),
});
export const payload = fc
  .tuple(custom, fc.option(apsPatch, { nil: undefined }))
  .map(([own, aps]) => (aps ? { ...own, aps } : own));

const androidPatch = some({
  title: orNull(anyText),
  body: orNull(anyText),
  ticker: anyText,
  sticky: fc.boolean(),
  local_only: fc.boolean(),
  event_time: fc.constantFrom('2026-11-21T18:00:00Z', '2026-11-21T18:00:00.123456789Z'),
  notification_priority: fc.constantFrom('PRIORITY_MIN', 'PRIORITY_MAX'),
  default_sound: fc.boolean(),
  default_vibrate_timings: fc.boolean(),
  default_light_settings: fc.boolean(),
  vibrate_timings: fc.array(duration, { maxLength: 4 }),
  light_settings: fc.record({
    color: some({ red: share, green: share, blue: share, alpha: share }),
    light_on_duration: duration,
    light_off_duration: duration,
  }),
  image: url,
  proxy: fc.constantFrom('ALLOW', 'DENY', 'IF_PRIORITY_LOWERED'),
  tag: orNull(printable(20)),
  channel_id: orNull(printable(20)),
});
const texts = fc.dictionary(fc.constantFrom('threadId', 'form', 'extra'), orNull(anyText), { maxKeys: 2 });
const anyMessage = {
  data: orNull(texts),
  webpush: some({
    headers: fc.record({ TTL: fc.constant('15'), Urgency: fc.constant('low') }),
    notification: fc.record({ title: anyText, requireInteraction: fc.boolean() }),
    fcm_options: fc.record({ link: url }),
  }),
  fcm_options: some({ analytics_label: label }),
};
const androidConfig = {
  direct_boot_ok: fc.boolean(),
  bandwidth_constrained_ok: fc.boolean(),
  restricted_satellite_ok: fc.boolean(),
  restricted_package_name: fc.constant('com.example.school'),
  collapse_key: orNull(printable(20)),
  ttl: orNull(duration),
  data: orNull(texts),
  fcm_options: some({ analytics_label: label }),
};
export const message = some({
  ...anyMessage,
  android: orNull(
    some({ ...androidConfig, priority: fc.constantFrom('HIGH', 'normal'), notification: orNull(androidPatch) }),
  ),
  apns: orNull(
    some({
      headers: some({
        'apns-priority': fc.constantFrom('5', '10'),
        'apns-expiration': orNull(fc.constantFrom('0', '1795284000')),
        'apns-id': fc.uuid(),
        'apns-collapse-id': orNull(fc.constant('trip-77')),
        'apns-topic': fc.constant('com.example.school'),
      }),
      payload,
      fcm_options: some({ analytics_label: label, image: url }),
    }),
  ),
});
export const backgroundMessage = some({
  ...anyMessage,
  android: some({ ...androidConfig, priority: fc.constant('normal') }),
  apns: some({ payload: custom, fcm_options: some({ analytics_label: label }) }),
});
