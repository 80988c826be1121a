-- Included by the scripts that look at slots. Needs KEYS (see admit.lua), `now`, `realNow`, `policies`, `id`, `member`. Gives
-- `scopes`, `hold`, `gap`, the settings in force (`policyUntil`, `blockedUntil`), and the look-ups in a set.
--
-- Opens what is stored for one recipient: the settings in force, and for each scope its limits and its sorted sets.

local GRACE_MS = 1000 -- newcomers stand behind an overdue reservation for this long
local NO_SHOW_MS = 60000 -- an overdue reservation is forgotten after this long
local MOST_LOOKED_AT = 100 -- so many reservations are looked at for a place, or moved to keep the order
local MOST_MISSED = 3 -- after so many that came late one after the other, those who come late go
-- Redis's clock may step back, at a failover for one. A slot is sent at most twice the hold ahead, so one further ahead
-- than the longest window and this was written under a clock that is gone, as were the reservations beside it: all are dropped.
local CLOCK_STEP_MS = 60000

-- A bound of a range of scores, itself left out. Never by `..`: Lua would print 14 digits.
local function beyond(score)
  return string.format('(%.0f', score)
end

-- A sorted set: its key, how long entries are kept (ms), how the id is written in it, the scores that were looked up, by
-- rank from the newest; how many of the newest are damage; the score of the id's own entry (`ownAt`), where it has one.
local function open(key, keep, entry)
  return { key = key, keep = keep, entry = entry, scores = {}, skipped = 0, lastGood = math.huge }
end

-- The score of the entry of this rank from the newest, false where there is none. Looked up once.
local function scoreAt(set, rank)
  if set.scores[rank] == nil then
    set.scores[rank] = tonumber(redis.call('ZREVRANGE', set.key, rank, rank, 'WITHSCORES')[2]) or false
  end
  return set.scores[rank]
end

-- The rank of the id's own entry from the newest.
local function ownRank(set)
  if not set.own then set.own = redis.call('ZREVRANK', set.key, set.entry) end
  return set.own
end

-- The k-th newest entry that is no damage and not the id's own: what the id itself holds does not stand in its way.
local function stored(set, k)
  local rank = set.skipped + k - 1
  if set.ownAt and rank >= ownRank(set) then rank = rank + 1 end
  return scoreAt(set, rank)
end

-- The same, with an entry more at `set.extra` where that is set: one that is about to be written.
local function newest(set, k)
  if not set.extra then return stored(set, k) end
  if not set.ahead then
    local last = stored(set, 1)
    set.ahead = last and last > set.extra and redis.call('ZCOUNT', set.key, beyond(set.extra), '+inf') - set.skipped or 0
    if set.ahead > 0 and set.ownAt and set.ownAt > set.extra then set.ahead = set.ahead - 1 end
  end
  if k <= set.ahead then return stored(set, k) end
  return k == set.ahead + 1 and set.extra or stored(set, k - 1)
end

local function skipBeyond(set, score)
  set.lastGood = score
  local top = scoreAt(set, 0)
  if top and top > score then set.skipped = redis.call('ZCOUNT', set.key, beyond(score), '+inf') end
end

-- How long entries are kept: what was sent, for the longest window that anybody asked under. It expires so long after its newest
-- entry.
local function keepOf(set)
  if set.isSent then
    set.isSent = nil
    local top = scoreAt(set, 0)
    local left = top and set.skipped == 0 and redis.call('PTTL', set.key) or -1
    if left > 0 and realNow + left >= now then set.keep = math.max(set.keep, realNow + left - top) end
  end
  return set.keep
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
  local scope = { number = number, limits = {}, gap = policy[3], longest = policy[3], most = 1 }
  if policy[3] > 0 then scope.limits[1] = { number = 0, max = 1, window = policy[3] } end
  for index = 4, #policy, 2 do
    scope.limits[#scope.limits + 1] = { number = index / 2 - 1, max = policy[index], window = policy[index + 1] }
    scope.longest = math.max(scope.longest, policy[index + 1])
    scope.most = math.max(scope.most, policy[index])
  end
  local key = number == 1 and 2 or 3 * number - 2
  scope.sent = open(KEYS[key], math.max(policy[1], scope.longest), member)
  scope.sent.isSent = true
  scope.reserved = open(KEYS[key + 1], NO_SHOW_MS, id)
  scope.held = number > 1 and open(KEYS[key + 2], NO_SHOW_MS, id) or nil
  -- Damage is skipped when reading and removed when writing: a peek and a refusal write nothing.
  skipBeyond(scope.sent, now + scope.longest + CLOCK_STEP_MS)
  if scope.sent.skipped > 0 then
    skipBeyond(scope.reserved, -math.huge)
    if scope.held then skipBeyond(scope.held, -math.huge) end
  end
  hold, gap = math.min(hold, policy[2]), math.max(gap, policy[3])
  scopes[number] = scope
end
