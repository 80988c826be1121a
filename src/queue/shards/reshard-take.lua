-- Takes jobs out of a queue, so that they can be put into another one. Their hashes stay here, so their ids stay taken.
--
-- KEYS[1] the list `wait`
-- KEYS[2] the sorted set `prioritized`
-- KEYS[3] the sorted set `delayed`
-- KEYS[4] the sorted set `completed`
-- KEYS[5] the list `active`
-- KEYS[6] the hash `moving` of the shard: for each field `<queue>:<id>`, its note `<state>:<at>:<lease>`
-- KEYS[7] the number of the latest lease
-- KEYS[8] `meta`
-- ARGV[1] the number of the caller's lease
-- ARGV[2] the queue's name: `notifications` or `dead-letters`
-- ARGV[3] the beginning of a job's key: `{pushpacer}:notifications:`
-- ARGV[4] the beginning of the key of a notification's job: for the hashes that only keep an id
-- ARGV[5] how many at most, ARGV[6] how many bytes of data about at most
-- ARGV[7...] the states to take from: the first one that has jobs. `moving`: jobs that were taken before, and not put; `stalled`: jobs
--         in `active` without a job lock, which are put among those that wait. The stall is counted, in `stc`, as BullMQ 6.7.0's
--         moveStalledJobsToWait does: the worker that was killed may have sent. If there were too many stalls, the worker that takes
--         the job next fails it, since that worker knows MAX_STALLS.
--
-- Answers -1 if another process has a newer lease. Else for each job { its note, id, state, at, its fields, ids }. `at`: the
-- priority, the due time or the end, depending on the state. `ids`: for each hash that only keeps an id of the same
-- notification { id, milliseconds, its fields }. Each time that an id is taken, its note is a new one. Nothing is taken from a
-- paused queue: its jobs would run elsewhere.
--
-- Why one step: no worker may take the job at the same time, and a process that is killed must leave the job in one of the two
-- places.

-- include fence.lua

if isStale(KEYS[7], ARGV[1]) then return -1 end
if redis.call('HEXISTS', KEYS[8], 'paused') == 1 then return {} end
local ACTIVE, MOVING, MARK = KEYS[5], KEYS[6], 'pushpacer:moved'
local name, prefix, keeperPrefix, most, mostBytes = ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
local PER_PRIORITY, PER_MS = 0x100000000, 0x1000

local function keeper(id)
  local key = keeperPrefix .. id
  local ttl = redis.call('PTTL', key)
  if ttl <= 0 or redis.call('HEXISTS', key, MARK) == 1 then return nil end
  return { id, ttl, redis.call('HGETALL', key) }
end

local bytes, answer = 0, {}

-- False if the hash is gone, or is only a mark: a person removed the job by hand.
local function isThere(id)
  return redis.call('EXISTS', prefix .. id) == 1 and redis.call('HEXISTS', prefix .. id, MARK) == 0
end

local function add(id, state, at, lease)
  local job = prefix .. id
  bytes = bytes + redis.call('HSTRLEN', job, 'data')
  local keepers = {}
  local own = state == 'dead' and keeper(id)
  if own then keepers[1] = own end
  local base = string.match(id, '^(.-)#[rd]%d')
  local first = base and base ~= '' and keeper(base)
  if first then keepers[#keepers + 1] = first end
  answer[#answer + 1] = { name .. ':' .. id .. ':' .. lease, id, state, at, redis.call('HGETALL', job), keepers }
end

-- Notes the job before it leaves its state, and answers whether the batch is full. A stall is counted after the note: if Redis
-- refuses a command in the middle, the second try finds the note, and does not count the stall again.
local function take(id, state, at, remove, isStalled)
  if isThere(id) then
    redis.call('HSET', MOVING, name .. ':' .. id, state .. ':' .. at .. ':' .. ARGV[1])
    if isStalled then redis.call('HINCRBY', prefix .. id, 'stc', 1) end
    add(id, state, at, ARGV[1])
  end
  remove()
  return bytes >= mostBytes
end

local function ofList(key, state, from, to, step, side)
  local ids = redis.call('LRANGE', key, from, to)
  local first, last = 1, #ids
  if step < 0 then first, last = #ids, 1 end
  for index = first, last, step do
    local id = ids[index]
    if take(id, state, '0', function() redis.call('LREM', key, side, id) end) then break end
  end
  return #ids
end

local function ofSet(key, state, divisor)
  local all = redis.call('ZRANGE', key, 0, most - 1, 'WITHSCORES')
  for index = 1, #all, 2 do
    local id, at = all[index], string.format('%.0f', math.floor(tonumber(all[index + 1]) / divisor))
    if take(id, state, at, function() redis.call('ZREM', key, id) end) then break end
  end
  return #all
end

local FROM = {
  wait = function() return ofList(KEYS[1], 'wait', -most, -1, -1, -1) end,
  dead = function() return ofList(KEYS[1], 'dead', 0, most - 1, 1, 1) end,
  prioritized = function() return ofSet(KEYS[2], 'prioritized', PER_PRIORITY) end,
  delayed = function() return ofSet(KEYS[3], 'delayed', PER_MS) end,
  completed = function() return ofSet(KEYS[4], 'completed', 1) end,
  stalled = function()
    local count = 0
    for _, id in ipairs(redis.call('LRANGE', ACTIVE, 0, most - 1)) do
      if redis.call('EXISTS', prefix .. id .. ':lock') == 0 then
        count = count + 1
        if take(id, 'wait', '0', function() redis.call('LREM', ACTIVE, 1, id) end, true) then break end
      end
    end
    return count
  end,
  moving = function()
    local begin = name .. ':'
    local all = redis.call('HGETALL', MOVING)
    for index = 1, #all, 2 do
      local field = all[index]
      if string.sub(field, 1, #begin) == begin and #answer < most and bytes < mostBytes then
        local id = string.sub(field, #begin + 1)
        local state, at, lease = string.match(all[index + 1], '^(%a+):(%d+):(%d+)$')
        if isThere(id) then add(id, state, at, lease) else redis.call('HDEL', MOVING, field) end
      end
    end
    return #answer
  end,
}

for index = 7, #ARGV do
  if FROM[ARGV[index]]() > 0 then break end
end
return answer
