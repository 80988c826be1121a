-- Puts jobs of another queue into this one, as BullMQ's `add` would, with all their fields.
--
-- KEYS[1] the list `wait`
-- KEYS[2] the sorted set `prioritized`
-- KEYS[3] the sorted set `delayed`
-- KEYS[4] the sorted set `completed`
-- KEYS[5] the list `active`
-- KEYS[6] `pc`, the counter that keeps jobs of one priority in order
-- KEYS[7] `marker`
-- KEYS[8] `events`
-- KEYS[9] `meta`
-- KEYS[10] the set `moved` of the shard: `<queue>:<id>` of what was put
-- KEYS[11] the number of the latest lease
-- ARGV[1] the number of the caller's lease
-- ARGV[2] the queue's name: `notifications` or `dead-letters`
-- ARGV[3] the beginning of a job's key: `{pushpacer}:notifications:`
-- ARGV[4] the beginning of the key of a notification's job: of hashes that only keep an id
-- ARGV[5...] for each job: id, state, at; the key of an index and the score in it, '' and 0 for none; how many fields and values, and
--         these; how many hashes that only keep an id, and for each: id, milliseconds, how many fields and values, and these
--
-- Answers -1 if the lease is an older one; else how many were put, and how many were dropped since their id is taken.
--
-- What was put before is left out, though it may have ended and be gone by now: the process before this one was killed before it
-- could remove the job from the other queue. An id is taken if a producer that does not know the number of queues has added it to the
-- wrong one. Then one of the two is dropped, so that none alerts twice: a job that has progress or has ended stays, against one that
-- has neither; else the one that is here stays.
--
-- The script writes what BullMQ 6.7.0's addStandardJob, addPrioritizedJob and addDelayedJob write; test/queue/reshard-layout.test.ts
-- compares them.

-- include fence.lua

if isStale(KEYS[11], ARGV[1]) then return { -1, 0 } end
local WAIT, PRIORITIZED, DELAYED, COMPLETED, ACTIVE = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local MARKER, EVENTS = KEYS[7], KEYS[8]
local MARK = 'pushpacer:moved'
local PER_PRIORITY, PER_MS = 0x100000000, 0x1000

local queue = redis.call('HMGET', KEYS[9], 'paused', 'concurrency')
local isPausedOrMaxed = queue[1] or (queue[2] and redis.call('LLEN', ACTIVE) >= tonumber(queue[2]))

local function event(...)
  redis.call('XADD', EVENTS, 'MAXLEN', '~', 10000, '*', 'event', ...)
end

local function isReady(id)
  if not isPausedOrMaxed then redis.call('ZADD', MARKER, 0, '0') end
  event('waiting', 'jobId', id)
end

-- As BullMQ's getDelayedScore: those of one millisecond keep their order.
local function delay(id, dueAt)
  local least, most = dueAt * PER_MS, (dueAt + 1) * PER_MS - 1
  local last = redis.call('ZREVRANGEBYSCORE', DELAYED, most, least, 'WITHSCORES', 'LIMIT', 0, 1)[2]
  local score = last and math.min(tonumber(last) + 1, most) or least
  redis.call('ZADD', DELAYED, score, id)
  event('delayed', 'jobId', id, 'delay', string.format('%.0f', dueAt))
  local head = redis.call('ZRANGE', DELAYED, 0, 0, 'WITHSCORES')
  redis.call('ZADD', MARKER, math.floor(tonumber(head[2]) / PER_MS), '1')
end

local PLACE = {
  wait = function(id)
    redis.call('LPUSH', WAIT, id)
    isReady(id)
  end,
  prioritized = function(id, priority)
    redis.call('ZADD', PRIORITIZED, priority * PER_PRIORITY + redis.call('INCR', KEYS[6]) % PER_PRIORITY, id)
    isReady(id)
  end,
  delayed = delay,
  completed = function(id, at)
    redis.call('ZADD', COMPLETED, at, id)
  end,
  -- The newest come first, and all are older than what died here since: the oldest is at the tail.
  dead = function(id)
    redis.call('RPUSH', WAIT, id)
    isReady(id)
  end,
}

-- Takes the job away from where it waits; false if it does not wait.
local function isTakenAway(id)
  return redis.call('ZREM', DELAYED, id) + redis.call('ZREM', PRIORITIZED, id) + redis.call('LREM', WAIT, 0, id) > 0
end

-- Whether the job that comes is to take the place of the one that has its id.
local function wins(job, id, has)
  if not (has.progress or has.finishedOn) then return false end
  if redis.call('HEXISTS', job, 'progress') == 1 or redis.call('HEXISTS', job, 'finishedOn') == 1 then return false end
  return isTakenAway(id)
end

local function store(key, fields)
  for from = 1, #fields, 1000 do
    redis.call('HSET', key, unpack(fields, from, math.min(from + 999, #fields)))
  end
end

local name, prefix, keeperPrefix = ARGV[2], ARGV[3], ARGV[4]
local at, put, dropped = 5, 0, 0

local function nextArg()
  at = at + 1
  return ARGV[at - 1]
end

local function nextFields()
  local fields = {}
  for index = 1, tonumber(nextArg()) do fields[index] = nextArg() end
  return fields
end

while at <= #ARGV do
  local id, state, instant, index, score = nextArg(), nextArg(), tonumber(nextArg()), nextArg(), nextArg()
  local fields = nextFields()
  for _ = 1, tonumber(nextArg()) do
    local keeper, ttl, kept = keeperPrefix .. nextArg(), nextArg(), nextFields()
    if redis.call('HEXISTS', keeper, MARK) == 1 then redis.call('DEL', keeper) end
    if #kept > 0 and redis.call('EXISTS', keeper) == 0 then
      store(keeper, kept)
      redis.call('PEXPIRE', keeper, ttl)
    end
  end
  if redis.call('SADD', KEYS[10], name .. ':' .. id) == 1 then
    local has = {}
    for field = 1, #fields, 2 do has[fields[field]] = fields[field + 1] end
    local newId, job = id, prefix .. id
    local isFree = redis.call('EXISTS', job) == 0 or redis.call('HEXISTS', job, MARK) == 1
    if not isFree and state == 'dead' then
      -- As bury.lua's caller: another dead letter has the id.
      local number = 0
      repeat
        number = number + 1
        newId = id .. '#d' .. number
        job = prefix .. newId
      until redis.call('EXISTS', job) == 0
      isFree = true
    end
    if isFree or wins(job, id, has) then
      redis.call('DEL', job)
      store(job, fields)
      if state ~= 'completed' then event('added', 'jobId', newId, 'name', has.name or '') end
      PLACE[state](newId, instant)
      if index ~= '' then
        redis.call('ZADD', index, score, id)
        local last = redis.call('ZREVRANGE', index, 0, 0, 'WITHSCORES')[2]
        redis.call('PEXPIREAT', index, string.format('%.0f', tonumber(last)))
      end
      put = put + 1
    else
      dropped = dropped + 1
    end
  end
end
return { put, dropped }
