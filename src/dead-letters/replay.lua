-- Moves a dead letter back into the queue of the notifications, under a new id, all in one step.
--
-- KEYS[1] dead letters: the list `wait`
-- KEYS[2] dead letters: the job's hash
-- KEYS[3] notifications: the new job's hash
-- KEYS[4] notifications: the sorted set `prioritized`
-- KEYS[5] notifications: `pc`, the counter that keeps jobs of one priority in order
-- KEYS[6] notifications: `marker`
-- KEYS[7] notifications: `events`
-- KEYS[8...] dead letters: the job's other keys (`:logs`, …), to be deleted
-- ARGV[1] the dead letter's id
-- ARGV[2] the new job's id
-- ARGV[3] its name, ARGV[4] its data and ARGV[5] its options, as JSON
-- ARGV[6] its priority
-- ARGV[7] its progress as JSON, empty for none
--
-- Answers 'moved'; 'gone' if the dead letter does not exist any more; 'taken' if the new job's id exists already. For 'gone'
-- and 'taken' nothing is written.
--
-- Why one step: if a replay were killed between an `add` and a `remove` and then started again, it would deliver twice. The script
-- writes what BullMQ 6.7.0's addPrioritizedJob writes; test/dead-letters/bullmq-layout.test.ts compares the two.

-- include ../redis/clock.lua
-- include take-out.lua

if redis.call('EXISTS', KEYS[3]) == 1 then
  return 'taken'
end
if redis.call('EXISTS', KEYS[2]) == 0 or not takeOut(KEYS[1], ARGV[1]) then
  return 'gone'
end
redis.call('DEL', KEYS[2])
for key = 8, #KEYS do
  redis.call('DEL', KEYS[key])
end

local now = clockNow()
redis.call('HSET', KEYS[3], 'name', ARGV[3], 'data', ARGV[4], 'opts', ARGV[5], 'timestamp', now, 'delay', 0, 'priority', ARGV[6])
if ARGV[7] ~= '' then
  redis.call('HSET', KEYS[3], 'progress', ARGV[7])
end
redis.call('ZADD', KEYS[4], ARGV[6] * 0x100000000 + redis.call('INCR', KEYS[5]) % 0x100000000, ARGV[2])
redis.call('ZADD', KEYS[6], 0, '0')
redis.call('XADD', KEYS[7], 'MAXLEN', '~', 10000, '*', 'event', 'added', 'jobId', ARGV[2], 'name', ARGV[3])
redis.call('XADD', KEYS[7], 'MAXLEN', '~', 10000, '*', 'event', 'waiting', 'jobId', ARGV[2])
return 'moved'
