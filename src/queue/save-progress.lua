-- Keeps a job's progress, where the job is still in the hands of who says so.
--
-- KEYS[1] the job's lock
-- KEYS[2] the job's hash
-- ARGV[1] the token that took the lock
-- ARGV[2] the progress, as JSON
--
-- Answers 1, or 0 where the lock has run out or is somebody else's, with nothing written. BullMQ's own updateProgress
-- asks for no lock: a worker that was stopped would write over what the job's new owner has reached.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[2], 'progress', ARGV[2])
return 1
