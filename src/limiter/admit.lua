-- Asks for a slot that keeps the limits of every scope, all in one step.
--
-- A scope is two sorted sets (score: epoch milliseconds, member: the id) with limits of their own. The first scope is
-- the one that knows the id; a slot is taken in all of them or in none.
--
-- KEYS    for each scope: the slots sent, the slots reserved; one hash tag
-- ARGV[1] the id
-- ARGV[2] 'admit', or 'peek' to write nothing
-- ARGV[3] the longest wait in ms; a longer one is refused, nothing is written. '' for no bound
-- ARGV[4] '1' where an admission of this id went unused and is to be forgotten; else '0'
-- ARGV[5] the time in epoch ms, in tests only; '' for that of Redis
-- then for each scope: how long slots are kept (ms), the hold (ms), the number of limits, and max and window (ms) of each
--
-- Answers {kind, at, now, scope, limit, repeated}: kind is 'admitted' (send at `at`), 'reserved' (come back at `at`) or
-- 'refused' (`at` is what it would have been); scope and limit are the numbers of the limit that decides, 0 for none;
-- repeated is 1 where the id had been admitted before.
--
-- Why it is exact: a slot t is taken only where t >= (the max-th newest of all that was sent) + window. So fewer than max
-- others lie within a window of t on either side, and no window that holds t holds more than max, in whatever order
-- slots are taken. Reservations are only plans: what a returning id gets is worked out anew from what was sent.

local GRACE_MS = 1000 -- newcomers stand behind an overdue reservation for this long
local NO_SHOW_MS = 60000 -- an overdue reservation is forgotten after this long
-- Redis's clock may step back, at a failover for one. A slot is sent at most twice the hold ahead, so one further ahead
-- than the longest window and this was written under a clock that is gone, as were the reservations beside it: all are dropped.
local CLOCK_STEP_MS = 60000
-- Reservations alone prove no step: a backlog may reach far. A year past the longest window no backlog is meant: 366 days.
local HORIZON_MS = 31622400000

local id, peek, maxWait, renew = ARGV[1], ARGV[2] == 'peek', tonumber(ARGV[3]), ARGV[4] == '1'
local now = tonumber(ARGV[5])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

-- A sorted set: its key, how long entries are kept (ms), the scores that were looked up, by rank from the newest; how
-- many of the newest are damage, and the rank of the id's own.
local function open(key, keep)
  return { key = key, keep = keep, scores = {}, skipped = 0, own = math.huge }
end

local scopes, hold, nextArg = {}, math.huge, 6
for number = 1, #KEYS / 2 do
  local scope = { number = number, limits = {}, longest = 0 }
  scope.sent = open(KEYS[2 * number - 1], tonumber(ARGV[nextArg]))
  scope.reserved = open(KEYS[2 * number], NO_SHOW_MS)
  hold = math.min(hold, tonumber(ARGV[nextArg + 1]))
  local limits = tonumber(ARGV[nextArg + 2])
  for limit = 1, limits do
    local max, window = tonumber(ARGV[nextArg + 1 + 2 * limit]), tonumber(ARGV[nextArg + 2 + 2 * limit])
    scope.limits[limit] = { max = max, window = window }
    scope.longest = math.max(scope.longest, window)
  end
  nextArg = nextArg + 3 + 2 * limits
  scopes[number] = scope
end
if nextArg ~= #ARGV + 1 then
  return redis.error_reply('ERR expected ' .. (nextArg - 1) .. ' arguments, found ' .. #ARGV)
end
local first = scopes[1]

-- A bound of a range of scores, itself left out. Never by `..`: Lua would print 14 digits.
local function beyond(score)
  return string.format('(%.0f', score)
end

-- The score of the entry of this rank from the newest, false where there is none. Looked up once.
local function scoreAt(set, rank)
  if set.scores[rank] == nil then
    set.scores[rank] = tonumber(redis.call('ZREVRANGE', set.key, rank, rank, 'WITHSCORES')[2]) or false
  end
  return set.scores[rank]
end

-- The k-th newest entry that is no damage and not the id's own: what the id itself holds does not stand in its way.
local function newest(set, k)
  local rank = set.skipped + k - 1
  if rank >= set.own then rank = rank + 1 end
  return scoreAt(set, rank)
end

local function skipBeyond(set, score)
  set.lastGood = score
  local top = scoreAt(set, 0)
  if top and top > score then set.skipped = redis.call('ZCOUNT', set.key, beyond(score), '+inf') end
end

-- The id's score in a set of the first scope, where it is still kept and no damage.
local function ownScore(name)
  local set = first[name]
  local score = scoreAt(set, 0) and tonumber(redis.call('ZSCORE', set.key, id) or nil)
  if not score or score < now - set.keep or score > set.lastGood then return nil end
  for _, scope in ipairs(scopes) do
    scope[name].own = redis.call('ZREVRANK', scope[name].key, id) or math.huge
  end
  return score
end

-- Damage is skipped when reading and removed when writing: a peek and a refusal write nothing.
for _, scope in ipairs(scopes) do
  skipBeyond(scope.sent, now + scope.longest + CLOCK_STEP_MS)
  skipBeyond(scope.reserved, scope.sent.skipped > 0 and -math.huge or now + scope.longest + HORIZON_MS)
end
local sentAt = ownScore('sent')
local slot = ownScore('reserved')

-- The first instant at which every limit has room, when the max-th newest slot of a limit is nth(scope, max); and the
-- limit that decides it, the first one where none asks for a wait.
local function firstInstant(nth)
  local bound, scopeNumber, limitNumber = now - 1, 1, #first.limits > 0 and 1 or 0
  for _, scope in ipairs(scopes) do
    for number, limit in ipairs(scope.limits) do
      local slotBefore = nth(scope, limit.max)
      if slotBefore and slotBefore + limit.window > bound then
        bound, scopeNumber, limitNumber = slotBefore + limit.window, scope.number, number
      end
    end
  end
  return { at = math.max(now, bound), scope = scopeNumber, limit = limitNumber }
end

local earliest = firstInstant(function(scope, k) return newest(scope.sent, k) end)

-- How many reservations stand before a newcomer: those that lie ahead, or are overdue by no more than the grace.
local function queued(set)
  if not newest(set, 1) then return 0 end
  local count = redis.call('ZCOUNT', set.key, string.format('%.0f', now - GRACE_MS), '+inf') - set.skipped
  if set.own ~= math.huge and slot >= now - GRACE_MS then count = count - 1 end
  return count
end

-- The first instant behind every reservation. A reservation counts at its slot, so that one which is late, but still on
-- time, puts off nobody else. It counts no earlier than the hold before `earliest`, where it would no longer be on time,
-- nor before a slot that was sent. So the newest of both together are the reservations, then what was sent, and the
-- tail is never before `earliest`.
local function tailInstant()
  local last = false
  for _, scope in ipairs(scopes) do
    scope.queued = queued(scope.reserved)
    scope.floor = math.max(earliest.at - hold, newest(scope.sent, 1) or 0)
    if scope.queued > 0 then last = math.max(last or 0, newest(scope.reserved, 1), scope.floor) end
  end
  if not last then return earliest end
  local tail = firstInstant(function(scope, k)
    if k > scope.queued then return newest(scope.sent, k - scope.queued) end
    return math.max(newest(scope.reserved, k), scope.floor)
  end)
  tail.at = math.max(tail.at, last)
  return tail
end

-- Forgets the damage, and what has been kept for long enough.
local function prune(set)
  if not scoreAt(set, 0) then return end
  if set.skipped > 0 then redis.call('ZREMRANGEBYSCORE', set.key, beyond(set.lastGood), '+inf') end
  redis.call('ZREMRANGEBYSCORE', set.key, '-inf', beyond(now - set.keep))
end

-- Puts the id into one set and takes it out of the other. A key expires `keep` after its last entry. Ranks shift with
-- the first write, so all that is still to be looked up is looked up before it.
local function move(into, outOf, at)
  local lastThere, lastHere = newest(outOf, 1), math.max(newest(into, 1) or 0, at)
  prune(into)
  prune(outOf)
  redis.call('ZADD', into.key, at, id)
  redis.call('PEXPIREAT', into.key, lastHere + into.keep)
  if outOf.own ~= math.huge then redis.call('ZREM', outOf.key, id) end
  if lastThere and (outOf.own ~= math.huge or outOf.skipped > 0) then redis.call('PEXPIREAT', outOf.key, lastThere + outOf.keep) end
end

local function answer(kind, at, why, repeated)
  return { kind, at, now, why.scope, why.limit, repeated or 0 }
end

local function waitUntil(at, why)
  return answer(maxWait and at - now > maxWait and 'refused' or 'reserved', at, why)
end

if sentAt and not renew then return answer('admitted', sentAt, earliest, 1) end
if slot and slot > now + hold then return waitUntil(slot, earliest) end -- too early: the same slot again

-- One whose slot is due goes as soon as what was sent allows, unless that is further off than the hold. Late by up to
-- the hold, a chain of them is as late as the latest, not as all of them together. All others go to the tail.
local due = slot or sentAt
local at, why = due and math.max(earliest.at, due), earliest
local mayGo = due and at <= math.max(now, due) + hold
if not mayGo then
  why = tailInstant()
  at, mayGo = why.at, why.at <= now + hold
end
local reply = mayGo and answer('admitted', at, why) or waitUntil(at, why)
if not peek and reply[1] ~= 'refused' then
  for _, scope in ipairs(scopes) do
    if mayGo then move(scope.sent, scope.reserved, at) else move(scope.reserved, scope.sent, at) end
  end
end
return reply
