-- Removes a dead letter for good, all in one step.
--
-- KEYS[1] dead letters: the list `wait`
-- KEYS[2] dead letters: the job's hash
-- KEYS[3] dead letters: `events`
-- KEYS[4...] dead letters: the job's other keys (`:logs`, …)
-- ARGV[1] the dead letter's id
-- ARGV[2] how many dead letters to keep: if there are no more than this, none is removed
--
-- Answers 'discarded'; 'gone' if the dead letter does not exist any more; 'kept' if there are no more than ARGV[2]. For 'gone'
-- and 'kept' nothing is written.
--
-- Why one step: if a replay and a removal come at the same time, one of them must get 'gone'. And the count must be read in the
-- same step, since a replay may take dead letters away after an earlier look.

-- include take-out.lua

if redis.call('LLEN', KEYS[1]) <= tonumber(ARGV[2]) then
  return 'kept'
end
if redis.call('EXISTS', KEYS[2]) == 0 or not takeOut(KEYS[1], ARGV[1]) then
  return 'gone'
end
for key = 4, #KEYS do
  redis.call('DEL', KEYS[key])
end
redis.call('DEL', KEYS[2])
redis.call('XADD', KEYS[3], 'MAXLEN', '~', 10000, '*', 'event', 'removed', 'jobId', ARGV[1], 'prev', 'wait')
return 'discarded'
