/** How many hash slots a Redis Cluster has. */
export const SLOTS = 16_384;

/** CRC16/XMODEM over the UTF-8 bytes, as Redis Cluster hashes keys (redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec). */
export function crc16(text: string): number {
  let crc = 0;
  for (const byte of Buffer.from(text)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021;
    crc &= 0xffff;
  }
  return crc;
}

/**
 * The prefix of each shard. A single shard has the prefix itself. With several, each gets a hash tag of its own, so that their
 * hash slots are spread evenly over the cluster: `{pushpacer-0-SALT}` in the first half, `{pushpacer-1-SALT}` in the second.
 * Before you change the number, let the queues run empty: another number has other tags.
 */
export function shardPrefixes(prefix: string, shards: number): string[] {
  if (shards === 1) return [prefix];
  const tag = /\{(.+?)\}/.exec(prefix)?.[1] ?? prefix;
  return Array.from({ length: shards }, (_, shard) => {
    const isInShare = (candidate: string) => Math.floor((crc16(candidate) % SLOTS) / (SLOTS / shards)) === shard;
    let salt = 0;
    while (!isInShare(`${tag}-${shard}-${salt}`)) salt++;
    return `{${tag}-${shard}-${salt}}`;
  });
}

/** The shard of a recipient, from 0. It never changes, so all notifications of one recipient are in one queue. */
export function shardOf(recipientId: string, shards: number): number {
  return shards === 1 ? 0 : crc16(recipientId) % shards;
}
