-- Notes in a job why it was moved to another due time. Does nothing if the job is gone: a person may have removed it since.
--
-- KEYS[1] the job's hash
-- ARGV[1] the field, ARGV[2] its value
--
-- Answers 1 if it was noted, else 0.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
