-- Removes an id from the set or list of its state, if its job does not exist any more.
--
-- KEYS[1] the failed jobs of the notifications (a sorted set), or the dead letters (a list)
-- KEYS[2] the job's hash
-- ARGV[1] the job's id
--
-- Answers 1 if the id was removed; 0 if the job exists, or the id is not there.
--
-- Why one step: between the check and the removal a producer may add the id again, and that job may fail.

-- include take-out.lua

if redis.call('EXISTS', KEYS[2]) == 1 then
  return 0
end
if redis.call('TYPE', KEYS[1]).ok == 'list' then
  return takeOut(KEYS[1], ARGV[1]) and 1 or 0
end
return redis.call('ZREM', KEYS[1], ARGV[1])
