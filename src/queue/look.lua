-- Some fields of many jobs, in one call. Data is read only where it is no longer than a notification's may be.
--
-- KEYS[1] any key of the queue, only to choose the node
-- ARGV[1] the beginning of a job's key: `{pushpacer}:notifications:`
-- ARGV[2] the longest data that is read, bytes
-- ARGV[3…] ids of jobs, a hundred or so: Redis does nothing else meanwhile
--
-- Answers for each id { name, timestamp, delay it was added with as JSON of `opts`, progress, why it was moved, data }; false for what is not there.

local answer = {}
for at = 3, #ARGV do
  local job = ARGV[1] .. ARGV[at]
  local fields = redis.call('HMGET', job, 'name', 'timestamp', 'opts', 'progress', 'pushpacer:why')
  if redis.call('HSTRLEN', job, 'data') <= tonumber(ARGV[2]) then fields[6] = redis.call('HGET', job, 'data') end
  answer[#answer + 1] = fields
end
return answer
