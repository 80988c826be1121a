import fc from 'fast-check';
import { expect, test } from 'vitest';
import { crc16, shardOf, shardPrefixes, SLOTS } from '../../src/queue/names.ts';

test('one shard is the prefix as it is', () => {
  expect(shardPrefixes('{pushpacer}', 1)).toEqual(['{pushpacer}']);
});

test('the hash is that of Redis Cluster', () => {
  expect(crc16('123456789')).toBe(0x31c3); // the check value of CRC-16/XMODEM
});

test('the slots of the shards lie evenly over the cluster', () => {
  for (const shards of [2, 3, 6, 16, 64]) {
    for (const prefix of ['{pushpacer}', 'plain', 'eu:{school}:x']) {
      const prefixes = shardPrefixes(prefix, shards);
      const shares = prefixes.map((each) => Math.floor((slotOf(each) * shards) / SLOTS));
      expect(shares).toEqual(Array.from({ length: shards }, (_, shard) => shard));
      expect(prefixes.every((each) => /^\{[^{}:]+\}$/.test(each))).toBe(true);
    }
  }
});

test('a recipient has one shard, whoever asks, and all shards have recipients', () => {
  // Pinned: under another answer the same id would be two notifications while a release rolls out.
  expect(['teacher-42', 'teacher-43', 'Łukasz'].map((id) => shardOf(id, 16))).toEqual([5, 4, 2]);
  fc.assert(fc.property(fc.string(), (id) => shardOf(id, 1) === 0 && shardOf(id, 7) < 7 && shardOf(id, 7) >= 0));
  const shards = Array.from({ length: 8_000 }, (_, n) => shardOf(`teacher-${n}`, 8));
  for (let shard = 0; shard < 8; shard++) expect(shards.filter((each) => each === shard).length).toBeGreaterThan(700);
});

function slotOf(prefix: string): number {
  return crc16(/\{(.+?)\}/.exec(prefix)?.[1] ?? prefix) % SLOTS;
}
