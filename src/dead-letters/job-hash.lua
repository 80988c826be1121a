-- Reads fields of a job's hash. Its data is not sent as a whole if it is longer than any notification's: only its beginning.
--
-- KEYS[1] the job's hash
-- ARGV[1] the most characters of data, ARGV[2] how many are sent of data that is longer
-- ARGV[3...] the other fields
--
-- Answers the length of the data, the data, then the other fields.
local length = redis.call('HSTRLEN', KEYS[1], 'data')
local values = redis.call('HMGET', KEYS[1], 'data', unpack(ARGV, 3))
if length > tonumber(ARGV[1]) then
  values[1] = string.sub(values[1], 1, ARGV[2])
end
table.insert(values, 1, length)
return values
