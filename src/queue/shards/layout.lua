-- The record of the queues, and the lease of the process that changes it.
--
-- KEYS[1] `{pushpacer}:shards`: the record, JSON
-- KEYS[2] `{pushpacer}:shards:lease`: the name of the process that may write the record and move jobs
-- KEYS[3] `{pushpacer}:shards:fence`: grows with each new lease
-- ARGV    'lease', name, milliseconds
--         'release', name
--         'write', name, the version that the record has now (0: there is none), the new record as JSON
--
-- Answers: 'lease': the number of the lease, or 0 if another process has it; 'release': 1 or 0; 'write': 1, or 0 if the lease
-- is gone or the record has another version.
--
-- Why a script: only one of two processes may get the lease, and a process that lost it while it stood still must not write.

local verb, name = ARGV[1], ARGV[2]
local holder = redis.call('GET', KEYS[2])
if verb == 'lease' then
  if holder and holder ~= name then return 0 end
  redis.call('SET', KEYS[2], name, 'PX', ARGV[3])
  return holder and tonumber(redis.call('GET', KEYS[3])) or redis.call('INCR', KEYS[3])
end
if holder ~= name then return 0 end
if verb == 'release' then return redis.call('DEL', KEYS[2]) end
local record = redis.call('GET', KEYS[1])
if (record and cjson.decode(record).version or 0) ~= tonumber(ARGV[3]) then return 0 end
redis.call('SET', KEYS[1], ARGV[4])
return 1
