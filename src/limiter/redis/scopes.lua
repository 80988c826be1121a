-- Included by the scripts that work with slots, after `now` and `policies` are known; see admit.lua for KEYS.
--
-- Opens what is stored for one recipient: the settings in force, and for each scope its limits and its two sorted sets.

local GRACE_MS = 1000 -- newcomers stand behind an overdue reservation for this long
local NO_SHOW_MS = 60000 -- an overdue reservation is forgotten after this long
-- Redis's clock may step back, at a failover for one. A slot is sent at most twice the hold ahead, so one further ahead
-- than the longest window and this was written under a clock that is gone, as were the reservations beside it: all are dropped.
local CLOCK_STEP_MS = 60000
-- Reservations alone prove no step: a backlog may reach far, and stand behind a block of a year. Two years past the
-- longest window no backlog is meant: 2 * 366 days.
local HORIZON_MS = 63244800000

-- A bound of a range of scores, itself left out. Never by `..`: Lua would print 14 digits.
local function beyond(score)
  return string.format('(%.0f', score)
end

-- A sorted set: its key, how long entries are kept (ms), how the id is written in it, the scores that were looked up, by
-- rank from the newest; how many of the newest are damage, and the rank of the id's own.
local function open(key, keep, entry)
  return { key = key, keep = keep, entry = entry, scores = {}, skipped = 0, own = math.huge }
end

-- The score of the entry of this rank from the newest, false where there is none. Looked up once.
local function scoreAt(set, rank)
  if set.scores[rank] == nil then
    set.scores[rank] = tonumber(redis.call('ZREVRANGE', set.key, rank, rank, 'WITHSCORES')[2]) or false
  end
  return set.scores[rank]
end

-- The k-th newest entry that is no damage and not the id's own: what the id itself holds does not stand in its way.
local function stored(set, k)
  local rank = set.skipped + k - 1
  if rank >= set.own then rank = rank + 1 end
  return scoreAt(set, rank)
end

-- The same, with an entry more at `set.extra` where that is set: one that is about to be written.
local function newest(set, k)
  if not set.extra then return stored(set, k) end
  if not set.ahead then
    set.ahead = redis.call('ZCOUNT', set.key, beyond(set.extra), '+inf') - set.skipped
    if set.own ~= math.huge and set.ownAt > set.extra then set.ahead = set.ahead - 1 end
  end
  if k <= set.ahead then return stored(set, k) end
  return k == set.ahead + 1 and set.extra or stored(set, k - 1)
end

local function skipBeyond(set, score)
  set.lastGood = score
  local top = scoreAt(set, 0)
  if top and top > score then set.skipped = redis.call('ZCOUNT', set.key, beyond(score), '+inf') end
end

-- Forgets the damage, and what has been kept for long enough.
local function prune(set)
  if not scoreAt(set, 0) then return end
  if set.skipped > 0 then redis.call('ZREMRANGEBYSCORE', set.key, beyond(set.lastGood), '+inf') end
  redis.call('ZREMRANGEBYSCORE', set.key, '-inf', beyond(now - set.keep))
end

-- What is stored for this recipient goes before what came with the call, until its end.
local storedPolicy, policyUntil, blockedUntil = unpack(redis.call('HMGET', KEYS[1], 'policy', 'policyUntil', 'blockedUntil'))
policyUntil, blockedUntil = tonumber(policyUntil or nil), tonumber(blockedUntil or nil)
if blockedUntil and blockedUntil <= now then blockedUntil = nil end
if storedPolicy and (policyUntil or math.huge) > now then
  storedPolicy = cjson.decode(storedPolicy)
  storedPolicy[1] = policies[1][1]
  policies[1] = storedPolicy
end

-- A policy is {how long slots are kept, the hold, the gap or 0, max, window, max, window, ...}, all times in ms. The gap
-- is the limit of number 0: one slot in its window.
local scopes, hold, gap = {}, math.huge, 0
for number, policy in ipairs(policies) do
  local scope = { number = number, limits = {}, longest = policy[3] }
  if policy[3] > 0 then scope.limits[1] = { number = 0, max = 1, window = policy[3] } end
  for index = 4, #policy, 2 do
    scope.limits[#scope.limits + 1] = { number = index / 2 - 1, max = policy[index], window = policy[index + 1] }
    scope.longest = math.max(scope.longest, policy[index + 1])
  end
  scope.sent = open(KEYS[2 * number], math.max(policy[1], scope.longest), member)
  scope.reserved = open(KEYS[2 * number + 1], NO_SHOW_MS, id)
  -- Damage is skipped when reading and removed when writing: a peek and a refusal write nothing.
  skipBeyond(scope.sent, now + scope.longest + CLOCK_STEP_MS)
  skipBeyond(scope.reserved, scope.sent.skipped > 0 and -math.huge or now + scope.longest + HORIZON_MS)
  hold, gap = math.min(hold, policy[2]), math.max(gap, policy[3])
  scopes[number] = scope
end

-- The instants of a scope, oldest first: as many of what was sent as its limits look at, then reservations as they are walked.
local function instantsOf(scope)
  local most, instants = 1, {}
  for _, limit in ipairs(scope.limits) do most = math.max(most, limit.max) end
  local from = scope.sent.skipped
  local entries = redis.call('ZREVRANGE', scope.sent.key, from, from + most - 1, 'WITHSCORES')
  for index = #entries, 2, -2 do
    local at = tonumber(entries[index])
    if at >= now - scope.sent.keep then instants[#instants + 1] = at end
  end
  return instants
end

local function insert(instants, at)
  local place = #instants + 1
  while place > 1 and instants[place - 1] > at do place = place - 1 end
  table.insert(instants, place, at)
end
