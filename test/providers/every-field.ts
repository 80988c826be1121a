import type { PushFields } from '../support/push.ts';

/** When the requests of these tests are made, by the providers' clock. */
export const NOW_MS = Date.parse('2026-11-21T17:00:00Z');

/** An alert with every field that goes out, each with a value that no other field has. */
export const EVERY_FIELD = {
  id: 'msg-8841',
  alert: {
    title: 'Room 12',
    subtitle: 'Class 7b',
    body: 'Forms are due',
    titleLocKey: 'TITLE',
    titleLocArgs: ['title-1', 'title-2'],
    subtitleLocKey: 'SUBTITLE',
    subtitleLocArgs: ['subtitle-1'],
    bodyLocKey: 'BODY',
    bodyLocArgs: ['body-1'],
  },
  data: { text: 'a', form: { id: 7, tags: [true, null] }, count: 1.5 },
  sound: 'bell.caf',
  imageUrl: 'https://example.com/a.jpg',
  badge: 3,
  priority: 'high',
  collapseId: 'thread-77',
  expiresAt: '2026-11-21T18:00:00Z',
  analyticsLabel: 'forms',
  apns: {
    threadId: 'thread-of-7b',
    actionCategory: 'FORM',
    interruptionLevel: 'time-sensitive',
    relevanceScore: 0.7,
    mutableContent: true,
    targetContentId: 'inbox',
    sound: { name: 'alarm.caf', critical: true, volume: 0.8 },
    priority: 10,
    topic: 'com.example.school.watchkitapp',
    payload: { aps: { 'filter-criteria': 'focus' }, own: { b: 2 } },
  },
  android: {
    channelId: 'homework',
    icon: 'ic_form',
    color: '#1a73e8',
    clickAction: 'OPEN_FORM',
    tag: 'tag-of-7b',
    visibility: 'secret',
    notificationCount: 5,
  },
  fcm: { message: { android: { direct_boot_ok: true, notification: { ticker: 'news' } } } },
  webpush: {
    icon: '/icon.png',
    badge: '/badge.png',
    actions: [{ action: 'open', title: 'Open' }],
    renotify: true,
    requireInteraction: true,
    declarative: true,
    navigate: 'https://school.example.com/forms',
  },
} as const satisfies PushFields;

/** What an iPhone gets of it as `aps`, whether APNs or FCM brings it. */
export const EVERY_APS = {
  alert: {
    title: 'Room 12',
    subtitle: 'Class 7b',
    body: 'Forms are due',
    'title-loc-key': 'TITLE',
    'title-loc-args': ['title-1', 'title-2'],
    'subtitle-loc-key': 'SUBTITLE',
    'subtitle-loc-args': ['subtitle-1'],
    'loc-key': 'BODY',
    'loc-args': ['body-1'],
  },
  badge: 3,
  sound: { name: 'alarm.caf', critical: 1, volume: 0.8 },
  'mutable-content': 1,
  'thread-id': 'thread-of-7b',
  category: 'FORM',
  'target-content-id': 'inbox',
  'interruption-level': 'time-sensitive',
  'relevance-score': 0.7,
  'filter-criteria': 'focus',
};

/** Fields that the queue and the limiter alone need. No provider may see them. */
export const KEPT_BACK = {
  recipientId: 'recipient-kept-back',
  category: 'category-kept-back',
  cancellationKey: 'cancellation-kept-back',
  sendAfter: '2026-11-21T16:00:00Z',
  onThrottle: 'digest',
  digest: { key: 'digest-kept-back', body: '{{count}} new' },
  onQuiet: 'drop',
} as const satisfies PushFields;
