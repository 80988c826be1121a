-- Moves a job that failed for good into the queue of the dead letters, all in one step.
--
-- KEYS[1] notifications: the sorted set `failed`
-- KEYS[2] notifications: the job's hash
-- KEYS[3] dead letters: the list `wait`
-- KEYS[4] dead letters: the new job's hash
-- KEYS[5] dead letters: `marker`
-- KEYS[6] dead letters: `events`
-- KEYS[7...] notifications: what else the job may have (`:logs` and the like), to be deleted
-- ARGV[1] the job's id
-- ARGV[2] the dead letter's id
-- ARGV[3] its name, ARGV[4] its data and ARGV[5] its options, as JSON
-- ARGV[6] how long the job's id stays taken, in seconds
--
-- Answers 'moved'; 'gone' where the job is not in `failed` any more, and 'taken' where the dead letter's id exists,
-- with nothing written.
--
-- Why one step: with BullMQ's own calls it would be an `add` and then a `remove`. A process killed between the two
-- leaves a failed job that has its dead letter already; once that was replayed, the next sweep would bury the job
-- again. Here a job is in `failed` or it is a dead letter, and of two that bury the same one, one finds it gone. It
-- writes what BullMQ 6.7.0's addStandardJob writes; test/dead-letters/bullmq-layout.test.ts compares the two.

if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return 'gone'
end
if redis.call('EXISTS', KEYS[4]) == 1 then
  return 'taken'
end

redis.call('ZREM', KEYS[1], ARGV[1])
-- In no state, but there: `add` takes the id for one that exists, as it does with completed jobs.
redis.call('EXPIRE', KEYS[2], ARGV[6])
for key = 7, #KEYS do
  redis.call('DEL', KEYS[key])
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('HSET', KEYS[4], 'name', ARGV[3], 'data', ARGV[4], 'opts', ARGV[5], 'timestamp', now, 'delay', 0, 'priority', 0)
redis.call('LPUSH', KEYS[3], ARGV[2])
redis.call('ZADD', KEYS[5], 0, '0')
redis.call('XADD', KEYS[6], 'MAXLEN', '~', 10000, '*', 'event', 'added', 'jobId', ARGV[2], 'name', ARGV[3])
redis.call('XADD', KEYS[6], 'MAXLEN', '~', 10000, '*', 'event', 'waiting', 'jobId', ARGV[2])
return 'moved'
