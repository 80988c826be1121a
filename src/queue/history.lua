-- Stores the story of a notification that has ended, and removes stories that are too old or too many.
--
-- KEYS[1] the stories: a hash, JSON by notification id
-- KEYS[2] the same ids in a sorted set; the score is when the story was stored, epoch ms
-- ARGV[1] the notification's id
-- ARGV[2] its story as JSON
-- ARGV[3] the most stories
-- ARGV[4] how long a story is kept, in ms
-- ARGV[5] how many stories are removed at most
--
-- Answers how many stories were removed. Both keys expire if no story is stored for as long as one is kept.
--
-- Why a script: the two keys must always have the same ids, and each notification costs only one command.

-- include ../redis/clock.lua

local stories, ends, now = KEYS[1], KEYS[2], clockNow()
redis.call('HSET', stories, ARGV[1], ARGV[2])
redis.call('ZADD', ends, now, ARGV[1])

local tooOld = redis.call('ZRANGEBYSCORE', ends, '-inf', now - ARGV[4], 'LIMIT', 0, ARGV[5])
local over = math.min(redis.call('ZCARD', ends) - ARGV[3], ARGV[5])
-- Both lists begin with the oldest story, so the longer list contains the other one.
local gone = over > #tooOld and redis.call('ZRANGE', ends, 0, over - 1) or tooOld
if #gone > 0 then
  redis.call('HDEL', stories, unpack(gone))
  redis.call('ZREM', ends, unpack(gone))
end
redis.call('PEXPIRE', stories, ARGV[4])
redis.call('PEXPIRE', ends, ARGV[4])
return #gone
