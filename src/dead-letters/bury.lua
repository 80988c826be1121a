-- Moves a job that failed for good into the queue of the dead letters, all in one step.
--
-- KEYS[1] notifications: the sorted set `failed`
-- KEYS[2] notifications: the job's hash
-- KEYS[3] dead letters: the list `wait`
-- KEYS[4] dead letters: the new job's hash
-- KEYS[5] dead letters: `marker`
-- KEYS[6] dead letters: `events`
-- KEYS[7] the stream of outcomes
-- KEYS[8...] notifications: the job's other keys (`:logs`, …), to be deleted
-- ARGV[1] the job's id
-- ARGV[2] the dead letter's id
-- ARGV[3] its name, ARGV[4] its data and ARGV[5] its options, as JSON
-- ARGV[6] how long the job's id stays taken, in seconds
-- ARGV[7] about how many outcomes the stream keeps; 0 for no entry
-- ARGV[8...] the fields and values of the entry, in turn
--
-- Answers 'moved'; 'gone' if the job is not in `failed` any more; 'taken' if the dead letter's id exists already. For 'gone'
-- and 'taken' nothing is written.
--
-- Why one step: BullMQ's own calls would be `add` and then `remove`. If the process is killed between them, the job is both
-- failed and a dead letter; after a replay the next sweep would make it a dead letter again. With this script a job is either
-- in `failed` or a dead letter, and of two processes that move the same job one gets 'gone'; so each dead letter has one
-- outcome. The script writes what BullMQ 6.7.0's addStandardJob writes; test/dead-letters/bullmq-layout.test.ts compares the
-- two.

-- include ../redis/clock.lua

if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  return 'gone'
end
if redis.call('EXISTS', KEYS[4]) == 1 then
  return 'taken'
end

redis.call('ZREM', KEYS[1], ARGV[1])
-- The hash stays without being in any state, so that BullMQ's `add` finds the id taken, as it does for completed jobs.
redis.call('EXPIRE', KEYS[2], ARGV[6])
for key = 8, #KEYS do
  redis.call('DEL', KEYS[key])
end

local now = clockNow()
redis.call('HSET', KEYS[4], 'name', ARGV[3], 'data', ARGV[4], 'opts', ARGV[5], 'timestamp', now, 'delay', 0, 'priority', 0)
redis.call('LPUSH', KEYS[3], ARGV[2])
redis.call('ZADD', KEYS[5], 0, '0')
redis.call('XADD', KEYS[6], 'MAXLEN', '~', 10000, '*', 'event', 'added', 'jobId', ARGV[2], 'name', ARGV[3])
redis.call('XADD', KEYS[6], 'MAXLEN', '~', 10000, '*', 'event', 'waiting', 'jobId', ARGV[2])
-- This is last, since it fails if another program uses the key: the dead letter is written by then.
if tonumber(ARGV[7]) > 0 then
  redis.call('XADD', KEYS[7], 'MAXLEN', '~', ARGV[7], '*', unpack(ARGV, 8))
end
return 'moved'
