-- Removes an id from the set or list of its state, if its job does not exist any more.
--
-- KEYS[1] the failed jobs of the notifications (a sorted set), or the dead letters (a list)
-- KEYS[2] the job's hash
-- ARGV[1] the job's id
--
-- Answers how many entries were removed: 0 if the job exists, or its id is not there.
--
-- Why one step: between the check and the removal a producer may add the id again, and that job may fail.

if redis.call('EXISTS', KEYS[2]) == 1 then
  return 0
end
if redis.call('TYPE', KEYS[1]).ok == 'list' then
  return redis.call('LREM', KEYS[1], 0, ARGV[1])
end
return redis.call('ZREM', KEYS[1], ARGV[1])
