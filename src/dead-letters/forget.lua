-- Takes an id out of where the jobs of its state are, if there is no such job any more.
--
-- KEYS[1] the failed jobs of the notifications (a sorted set), or the dead letters (a list)
-- KEYS[2] the job's hash
-- ARGV[1] the job's id
--
-- Answers how often it was taken out: 0 where the job is there, or its id is not.
--
-- Why one step: between a look and a removal a producer may add the id anew, and that job may fail.

if redis.call('EXISTS', KEYS[2]) == 1 then
  return 0
end
if redis.call('TYPE', KEYS[1]).ok == 'list' then
  return redis.call('LREM', KEYS[1], 0, ARGV[1])
end
return redis.call('ZREM', KEYS[1], ARGV[1])
