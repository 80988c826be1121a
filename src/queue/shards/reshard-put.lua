-- Puts jobs of another queue into this one, as BullMQ's `add` would, with all their fields.
--
-- KEYS[1] the list `wait`
-- KEYS[2] the sorted set `prioritized`
-- KEYS[3] the sorted set `delayed`
-- KEYS[4] the sorted set `completed`
-- KEYS[5] the list `active`
-- KEYS[6] the sorted set `failed`
-- KEYS[7] `pc`, the counter that keeps jobs of one priority in order
-- KEYS[8] `marker`
-- KEYS[9] `events`
-- KEYS[10] `meta`
-- KEYS[11] the set `moved` of the shard: the notes of jobs that were put
-- KEYS[12] the number of the latest lease
-- ARGV[1] the number of the caller's lease
-- ARGV[2] the queue's name: `notifications` or `dead-letters`
-- ARGV[3] the beginning of a job's key: `{pushpacer}:notifications:`
-- ARGV[4] the beginning of the key of a notification's job: for the hashes that only keep an id
-- ARGV[5...] for each job: its note, id, state, at; the key of an index and the score in it, '' and 0 for none; how many fields and
--         values, and these; how many hashes that only keep an id, and for each: id, milliseconds, how many fields and values, and these
--
-- Answers { -1, 0 } if another process has a newer lease; else { how many were put, how many were dropped because their id is
-- taken }.
--
-- A job whose note is in `moved` is left out, even if it has ended and is gone by now: an earlier process put it, and was
-- killed before it could remove the job from the other queue. An id is taken if a producer that does not know the number of
-- queues has added it to the wrong queue. Then one of the two jobs is dropped, so that not both alert: a job that has progress
-- or has ended is kept against a job that has neither; else the job that is here is kept.
--
-- If Redis refuses a command in the middle (because the user lacks a right), what was written stays. So the note is written
-- after the job is in its state: a second try finds the job there, or finds its hash without a state, which it writes again.
--
-- The script writes what BullMQ 6.7.0's addStandardJob, addPrioritizedJob and addDelayedJob write; test/queue/reshard-layout.test.ts
-- compares them.

-- include fence.lua

if isStale(KEYS[12], ARGV[1]) then return { -1, 0 } end
local WAIT, PRIORITIZED, DELAYED, COMPLETED, ACTIVE, FAILED = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local MARKER, EVENTS, MOVED = KEYS[8], KEYS[9], KEYS[11]
local MARK = 'pushpacer:moved'
-- If a process is killed, the next one goes on within seconds, so this is long enough.
local NOTE_KEPT_MS = 86400000
local PER_PRIORITY, PER_MS = 0x100000000, 0x1000

local queue = redis.call('HMGET', KEYS[10], 'paused', 'concurrency')
local isPausedOrMaxed = queue[1] or (queue[2] and redis.call('LLEN', ACTIVE) >= tonumber(queue[2]))

local function event(...)
  redis.call('XADD', EVENTS, 'MAXLEN', '~', 10000, '*', 'event', ...)
end

local function isReady(id)
  if not isPausedOrMaxed then redis.call('ZADD', MARKER, 0, '0') end
  event('waiting', 'jobId', id)
end

-- For each state: where the job is put (PUSH), and which events report that (TELL).
local PUSH = {
  wait = function(id)
    redis.call('LPUSH', WAIT, id)
  end,
  prioritized = function(id, priority)
    redis.call('ZADD', PRIORITIZED, priority * PER_PRIORITY + redis.call('INCR', KEYS[7]) % PER_PRIORITY, id)
  end,
  -- As BullMQ's getDelayedScore: jobs that are due in the same millisecond keep their order.
  delayed = function(id, dueAt)
    local least, most = dueAt * PER_MS, (dueAt + 1) * PER_MS - 1
    local last = redis.call('ZREVRANGEBYSCORE', DELAYED, most, least, 'WITHSCORES', 'LIMIT', 0, 1)[2]
    redis.call('ZADD', DELAYED, last and math.min(tonumber(last) + 1, most) or least, id)
  end,
  completed = function(id, at)
    redis.call('ZADD', COMPLETED, at, id)
  end,
  -- Dead letters are moved newest first, and all are older than those that were buried here since. So each is put at the tail.
  dead = function(id)
    redis.call('RPUSH', WAIT, id)
  end,
}
local TELL = {
  wait = isReady,
  prioritized = isReady,
  delayed = function(id, dueAt)
    event('delayed', 'jobId', id, 'delay', string.format('%.0f', dueAt))
    local head = redis.call('ZRANGE', DELAYED, 0, 0, 'WITHSCORES')
    if head[2] then redis.call('ZADD', MARKER, math.floor(tonumber(head[2]) / PER_MS), '1') end
  end,
  completed = function() end,
  dead = isReady,
}

-- Whether an earlier try wrote only the hash, before Redis refused the next command: BullMQ leaves no hash without a state.
local function isHalf(id)
  for _, set in ipairs({ DELAYED, PRIORITIZED, COMPLETED, FAILED }) do
    if redis.call('ZSCORE', set, id) then return false end
  end
  return not (redis.call('LPOS', WAIT, id) or redis.call('LPOS', ACTIVE, id))
end

-- Whether no job has the id here.
local function isFree(id, job)
  return redis.call('EXISTS', job) == 0 or redis.call('HEXISTS', job, MARK) == 1 or isHalf(id)
end

-- Removes the job from where it waits; false if it does not wait.
local function isTakenAway(id)
  return redis.call('ZREM', DELAYED, id) + redis.call('ZREM', PRIORITIZED, id) + redis.call('LREM', WAIT, 0, id) > 0
end

-- Whether the job that is moved here is to replace the job that has its id here.
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
  local note, id, state, instant, index, score = nextArg(), nextArg(), nextArg(), tonumber(nextArg()), nextArg(), nextArg()
  local fields = nextFields()
  for _ = 1, tonumber(nextArg()) do
    local keeper, ttl, kept = keeperPrefix .. nextArg(), nextArg(), nextFields()
    if redis.call('HEXISTS', keeper, MARK) == 1 then redis.call('DEL', keeper) end
    if #kept > 0 and redis.call('EXISTS', keeper) == 0 then
      store(keeper, kept)
      redis.call('PEXPIRE', keeper, ttl)
    end
  end
  if redis.call('SISMEMBER', MOVED, note) == 0 then
    local has = {}
    for field = 1, #fields, 2 do has[fields[field]] = fields[field + 1] end
    local newId, job, number = id, prefix .. id, 0
    local base = string.match(id, '^(.+)#d%d+$') or id
    -- If another dead letter has the id, the next free id is taken, as the caller of bury.lua does.
    while state == 'dead' and not isFree(newId, job) do
      number = number + 1
      newId = base .. '#d' .. number
      job = prefix .. newId
    end
    local isPut = isFree(newId, job) or wins(job, id, has)
    if isPut then
      redis.call('DEL', job)
      store(job, fields)
      if index ~= '' then
        redis.call('ZADD', index, score, id)
        local last = redis.call('ZREVRANGE', index, 0, 0, 'WITHSCORES')[2]
        redis.call('PEXPIREAT', index, string.format('%.0f', tonumber(last)))
      end
      if state ~= 'completed' then event('added', 'jobId', newId, 'name', has.name or '') end
      PUSH[state](newId, instant)
    end
    redis.call('SADD', MOVED, note)
    redis.call('PEXPIRE', MOVED, NOTE_KEPT_MS)
    if isPut then TELL[state](newId, instant) end
    put = put + (isPut and 1 or 0)
    dropped = dropped + (isPut and 0 or 1)
  end
end
return { put, dropped }
