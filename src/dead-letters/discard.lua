-- Removes a dead letter for good, all in one step.
--
-- KEYS[1] dead letters: the list `wait`
-- KEYS[2] dead letters: the job's hash
-- KEYS[3] dead letters: `events`
-- KEYS[4...] dead letters: what else the job may have (`:logs` and the like)
-- ARGV[1] the dead letter's id
-- ARGV[2] so many are kept: where there are no more than these, none is removed
--
-- Answers 'discarded'; 'gone' where the dead letter is not there any more, 'kept' where there are so few, with nothing
-- written.
--
-- Why one step: of a replay and a removal at the same time, one finds it gone. And a count that was looked up before says
-- nothing of how many are left: a replay may have taken some since.

if redis.call('LLEN', KEYS[1]) <= tonumber(ARGV[2]) then
  return 'kept'
end
-- The oldest are at the tail, where most removals begin.
if redis.call('LREM', KEYS[1], -1, ARGV[1]) == 0 then
  return 'gone'
end
for key = 4, #KEYS do
  redis.call('DEL', KEYS[key])
end
redis.call('DEL', KEYS[2])
redis.call('XADD', KEYS[3], 'MAXLEN', '~', 10000, '*', 'event', 'removed', 'jobId', ARGV[1], 'prev', 'wait')
return 'discarded'
