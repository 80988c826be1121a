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
