-- Writes that a part of a digest was canceled after it had ended as merged: into the return value of its job, and into the stream
-- of outcomes if there is one.
--
-- KEYS[1] the job's hash
-- KEYS[2] the stream of outcomes
-- ARGV[1] the new return value, as JSON
-- ARGV[2...] the fields and values of the entry, in turn
--
-- Answers 1; 0 if the job's return value is not that of a merged one, and then nothing is written.
--
-- Why one step: the process that cancels may be killed. Then both are written or none is; a second cancel writes both, once.

local text = redis.call('HGET', KEYS[1], 'returnvalue')
local ended = text and cjson.decode(text)
if type(ended) ~= 'table' or ended.outcome ~= 'merged' then
  return 0
end
-- First, since it fails if another program uses the key. A worker trims the stream with its next entry.
if redis.call('EXISTS', KEYS[2]) == 1 then
  redis.call('XADD', KEYS[2], '*', unpack(ARGV, 2))
end
redis.call('HSET', KEYS[1], 'returnvalue', ARGV[1])
return 1
