-- Fields of many jobs, in one call.
--
-- KEYS[1] any key of the queue, only to choose the node
-- ARGV[1] the beginning of a job's key: `{pushpacer}:notifications:`
-- ARGV[2] the longest data that is sent whole, bytes
-- ARGV[3] how many bytes are sent of longer data
-- ARGV[4...] ids of jobs, a hundred at most, since Redis does nothing else meanwhile
--
-- Answers for each id { length of the data, data, timestamp, name, opts, progress, why it was moved, failedReason, finishedOn
-- }; each field that does not exist is false.

local answer = {}
for at = 4, #ARGV do
  local job = ARGV[1] .. ARGV[at]
  local length = redis.call('HSTRLEN', job, 'data')
  local data = false
  if length <= tonumber(ARGV[2]) then
    data = redis.call('HGET', job, 'data')
  elseif tonumber(ARGV[3]) > 0 then
    data = string.sub(redis.call('HGET', job, 'data'), 1, ARGV[3])
  end
  local fields = redis.call('HMGET', job, 'timestamp', 'name', 'opts', 'progress', 'pushpacer:why', 'failedReason', 'finishedOn')
  answer[#answer + 1] = { length, data, unpack(fields) }
end
return answer
