-- Marks of ids: "this notification is in another queue". A mark is a hash under the key of the job, so BullMQ finds the id taken.
--
-- KEYS[1] any key of the queue, only to choose the node
-- ARGV[1] 'claim': marks the ids that are free here, so that they can be added to another queue
--         'marked': which of them are marked
--         'clear': removes marks
-- ARGV[2] the beginning of a job's key: `{pushpacer}:notifications:`
-- ARGV[3] how long a mark is kept, in seconds
-- ARGV[4...] ids of jobs
--
-- Answers for each id: 'claim': 1 if it is marked now, 0 if a job has the id; 'marked' and 'clear': 1 if it was marked, else 0.
--
-- Why one step: another producer may add the same id here at this moment. Then one of the two must find the id taken.

local MARK = 'pushpacer:moved'
local answer = {}
for at = 4, #ARGV do
  local job = ARGV[2] .. ARGV[at]
  local isMarked = redis.call('HEXISTS', job, MARK)
  if ARGV[1] == 'claim' and (isMarked == 1 or redis.call('EXISTS', job) == 0) then
    redis.call('HSET', job, MARK, '1')
    redis.call('EXPIRE', job, ARGV[3])
    isMarked = 1
  elseif ARGV[1] == 'clear' and isMarked == 1 then
    redis.call('DEL', job)
  end
  answer[#answer + 1] = isMarked
end
return answer
