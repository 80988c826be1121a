-- Stores a job's progress, if the worker still has the job lock.
--
-- KEYS[1] the job's lock
-- KEYS[2] the job's hash
-- ARGV[1] the token that took the lock
-- ARGV[2] the progress, as JSON
--
-- Answers 1; or 0, and writes nothing, if the lock has expired or belongs to another worker. BullMQ's own updateProgress does
-- not check the lock: a worker that was stopped for long would overwrite the progress of the worker that has the job now.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[2], 'progress', ARGV[2])
return 1
