-- Adds a job to the index of what waits under a cancellation key, or removes it.
--
-- KEYS[1] the index: a sorted set of job ids; the score of an id is until when it is kept, epoch ms
-- KEYS[2] only after a producer has added the job: its hash
-- ARGV[1] the job's id
-- ARGV[2] how long to keep it, in ms; 0 to remove it
-- ARGV[3] the most ids in one index: if there are more, those that would be kept for the shortest time are removed
-- ARGV[4] only with KEYS[2]: the timestamp of the job that was added. Nothing is written if another job had the id already
--
-- Why a script: the key must expire together with its last id, in whatever order the ids are added.

-- include ../redis/clock.lua

if KEYS[2] and redis.call('HGET', KEYS[2], 'timestamp') ~= ARGV[4] then return 0 end

local key, id, keptMs = KEYS[1], ARGV[1], tonumber(ARGV[2])
local now = clockNow()
if keptMs == 0 then
  redis.call('ZREM', key, id)
else
  redis.call('ZADD', key, now + keptMs, id)
end
redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
redis.call('ZREMRANGEBYRANK', key, 0, -1 - tonumber(ARGV[3]))
local last = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2]
if last then redis.call('PEXPIREAT', key, last) end
return 1
