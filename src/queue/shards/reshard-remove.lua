-- Removes a key of a shard that nothing needs after a reshard.
--
-- KEYS[1] the number of the latest lease
-- KEYS[2] the key
-- ARGV[1] the number of the caller's lease
--
-- Answers -1 if another process has a newer lease; else how many keys were removed.

-- include fence.lua

if isStale(KEYS[1], ARGV[1]) then return -1 end
return redis.call('DEL', KEYS[2])
