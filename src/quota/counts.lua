-- Included by quota.lua. Counts by bucket of time, in a sorted set of entries `bucket:count` (score: the bucket). They are read
-- in ranges, changed in memory, and stored at the end.

-- Not by `..` or tostring: Lua would print only 14 digits.
local function digits(value)
  return string.format('%.0f', value)
end

local function entry(bucket, count)
  return digits(bucket) .. ':' .. digits(count)
end

local function counts(key)
  return { key = key, counts = {}, before = {} }
end

local function load(set, from, to)
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', set.key, digits(from), to and digits(to) or '+inf')) do
    local bucket, count = string.match(member, '^(%d+):(%d+)$')
    set.counts[tonumber(bucket)] = tonumber(count)
  end
end

local function countAt(set, bucket)
  return set.counts[bucket] or 0
end

local function change(set, bucket, by)
  local count = countAt(set, bucket)
  set.before[bucket] = set.before[bucket] or count
  set.counts[bucket] = count + by
end

local function sum(set, from, to)
  local total = 0
  for bucket = from, to do total = total + countAt(set, bucket) end
  return total
end

local function store(set)
  for bucket, before in pairs(set.before) do
    local count = set.counts[bucket]
    if count ~= before and before > 0 then redis.call('ZREM', set.key, entry(bucket, before)) end
    if count ~= before and count > 0 then redis.call('ZADD', set.key, digits(bucket), entry(bucket, count)) end
  end
end
