import { expect, test } from 'vitest';
import { pushId } from '../../src/domain/device.ts';

test('a push id is a UUID of version 5 that never changes', () => {
  expect(pushId('msg-8841', 0)).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  // Written down: an upgrade in the middle of a retry must not change it.
  expect(pushId('msg-8841', 0)).toBe('d40149f3-0d92-5661-b93b-9b0c8ac11be2');
});

test('each device and each notification has its own', () => {
  const ids = ['msg-1', 'msg-11', 'msg-2'].flatMap((id) => [0, 1, 10, 11].map((index) => pushId(id, index)));
  expect(new Set(ids).size).toBe(ids.length);
});
