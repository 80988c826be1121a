-- Takes the lock of a job anew for the worker that has the job, if the lock is gone and nobody else has begun the job.
--
-- KEYS[1] the job's lock
-- KEYS[2] the job's hash
-- KEYS[3] BullMQ's list of active jobs
-- KEYS[4] BullMQ's set of jobs that may have stalled
-- ARGV[1] the token with which the worker took the job
-- ARGV[2] how long the lock is to last, in milliseconds
-- ARGV[3] the job's id
-- ARGV[4] how often the job had been begun when the worker took it, this time included
--
-- Answers 1; or 0, and writes nothing. It is one step, since BullMQ's check of stalled jobs may come at any moment. That check
-- takes a job without a lock off the list; only then another worker can begin it, and each begin is counted.

local isOurs = redis.call('EXISTS', KEYS[1]) == 0
  and redis.call('HGET', KEYS[2], 'ats') == ARGV[4]
  and redis.call('LPOS', KEYS[3], ARGV[3])
if not isOurs then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('SREM', KEYS[4], ARGV[3])
return 1
