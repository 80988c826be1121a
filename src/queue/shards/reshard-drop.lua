-- Removes jobs that are in another queue by now. Their ids stay taken here for a while, so a producer that still adds to this
-- queue finds them taken.
--
-- KEYS[1] the hash `moving` of the shard
-- KEYS[2] the number of the latest lease
-- ARGV[1] the number of the caller's lease
-- ARGV[2] the queue's name, ARGV[3] the beginning of a job's key
-- ARGV[4] how long their ids stay taken, in seconds; 0: not at all
-- ARGV[5...] for each job: its id, and the key of the index from which it is removed, '' for none
--
-- Answers -1 if another process has a newer lease; else how many jobs were removed.
--
-- Why one step: if the process is killed, the job's hash and its note in `moving` must both be left, or both be gone.

-- include fence.lua

if isStale(KEYS[2], ARGV[1]) then return -1 end
local removed = 0
for at = 5, #ARGV, 2 do
  local id, index = ARGV[at], ARGV[at + 1]
  local note = ARGV[2] .. ':' .. id
  if redis.call('HEXISTS', KEYS[1], note) == 1 then
    local job = ARGV[3] .. id
    redis.call('DEL', job, job .. ':logs', job .. ':dependencies', job .. ':processed', job .. ':failed', job .. ':unsuccessful')
    if tonumber(ARGV[4]) > 0 then
      redis.call('HSET', job, 'pushpacer:moved', '1')
      redis.call('EXPIRE', job, ARGV[4])
    end
    if index ~= '' then redis.call('ZREM', index, id) end
    redis.call('HDEL', KEYS[1], note)
    removed = removed + 1
  end
end
return removed
