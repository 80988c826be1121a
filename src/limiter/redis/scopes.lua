-- Included by scripts that read slots. Needs KEYS (see admit.lua), `now`, `policies`, `id`, `member`. Gives `scopes`,
-- `tolerance` and `early` (ms), `gap`, the settings in force (`policyUntil`, `blockedUntil`, `storedQuiet`), and look-ups in a set.
--
-- Reads what is stored for one recipient: the settings in force, and for each scope its limits and its sorted sets. Ends the script
-- with an error if a newer version wrote it (format.lua).

local GRACE_MS = 2000 -- newcomers are placed behind an overdue reservation for this long
local NO_SHOW_MS = 60000 -- an overdue reservation is forgotten after this long
-- Redis's clock may be set back, for example at a failover. A sent slot lies only a little ahead of now. If it lies further
-- ahead than the longest window plus this, it was written before the clock was set back: it is damage, and so are the
-- reservations in the same scope. All damage is dropped.
local CLOCK_STEP_MS = 60000

-- An exclusive bound for a range of scores. Not made with `..`, which prints only 14 digits.
local function beyond(score)
  return string.format('(%.0f', score)
end

-- A sorted set. `keep`: how long entries are kept (ms). `entry`: the id as it is stored here. `scores`: the scores looked up so
-- far, by rank from the newest. `skipped`: how many of the newest entries are damage. `ownAt`, set later: the score of the id's
-- entry.
local function open(key, keep, entry)
  return { key = key, keep = keep, entry = entry, scores = {}, skipped = 0, lastGood = math.huge }
end

-- The score of the entry with this rank from the newest, or false if there is none. Each score is looked up only once.
local function scoreAt(set, rank)
  if set.scores[rank] == nil then
    set.scores[rank] = tonumber(redis.call('ZREVRANGE', set.key, rank, rank, 'WITHSCORES')[2]) or false
  end
  return set.scores[rank]
end

-- The rank, from the newest, of the id's own entry.
local function ownRank(set)
  if not set.own then set.own = redis.call('ZREVRANK', set.key, set.entry) end
  return set.own
end

-- The score of the k-th newest entry, without damage and without the id's own entry, since an id never has to wait for itself.
local function stored(set, k)
  local rank = set.skipped + k - 1
  if set.ownAt and rank >= ownRank(set) then rank = rank + 1 end
  return scoreAt(set, rank)
end

-- As `stored`, but as if there were one more entry at `set.extra`, which is about to be written.
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

-- Counts all entries with a score above `score` as damage (`skipped`).
local function skipBeyond(set, score)
  set.lastGood = score
  local top = scoreAt(set, 0)
  if top and top > score then set.skipped = redis.call('ZCOUNT', set.key, beyond(score), '+inf') end
end

-- How long entries of the set are kept. Sent slots are kept for the longest window of all asks so far: that time is not stored,
-- but is the distance from the newest entry to the key's expiry.
local function keepOf(set)
  if set.isSent then
    set.isSent = nil
    local top = scoreAt(set, 0)
    local left = top and set.skipped == 0 and redis.call('PTTL', set.key) or -1
    if left > 0 then set.keep = math.max(set.keep, now + left - top) end
  end
  return set.keep
end

-- include format.lua

-- The limits of a policy: {how long slots are kept, the tolerance, the gap or 0, max, window, max, window, ...}, all times in ms.
-- The gap is limit number 0: max 1 in a window of the gap.
local function limitsOf(policy)
  local limits = {}
  if policy[3] > 0 then limits[1] = { number = 0, max = 1, window = policy[3] } end
  for index = 4, #policy, 2 do
    limits[#limits + 1] = { number = index / 2 - 1, max = policy[index], window = policy[index + 1] }
  end
  return limits
end

-- A policy that is stored for this recipient overrides the policy of the call until it ends. `later`: the limits after that.
local later
local storedPolicy, policyUntil, blockedUntil, storedQuiet, format =
  unpack(redis.call('HMGET', KEYS[1], 'policy', 'policyUntil', 'blockedUntil', 'quiet', 'format'))
local newer = refusalOf(format)
if newer then return newer end
policyUntil, blockedUntil = tonumber(policyUntil or nil), tonumber(blockedUntil or nil)
if blockedUntil and blockedUntil <= now then blockedUntil = nil end
if storedPolicy and (policyUntil or math.huge) > now then
  storedPolicy = cjson.decode(storedPolicy)
  storedPolicy[1] = policies[1][1]
  later = policyUntil and limitsOf(policies[1])
  policies[1] = storedPolicy
end

local scopes, tolerance, gap = {}, math.huge, 0
for number, policy in ipairs(policies) do
  local scope = { number = number, limits = limitsOf(policy), gap = policy[3], longest = policy[3], most = 1 }
  for _, limit in ipairs(scope.limits) do
    scope.longest, scope.most = math.max(scope.longest, limit.window), math.max(scope.most, limit.max)
  end
  scope.later = number == 1 and later or nil
  local key = number == 1 and 2 or 3 * number - 2
  scope.sent = open(KEYS[key], math.max(policy[1], scope.longest), member)
  scope.sent.isSent = true
  scope.reserved = open(KEYS[key + 1], NO_SHOW_MS, id)
  scope.heldBack = number > 1 and open(KEYS[key + 2], NO_SHOW_MS, id) or nil
  -- Reading skips damage and only writing removes it, because a peek and a refusal must not write.
  skipBeyond(scope.sent, now + scope.longest + CLOCK_STEP_MS)
  if scope.sent.skipped > 0 then
    skipBeyond(scope.reserved, -math.huge)
    if scope.heldBack then skipBeyond(scope.heldBack, -math.huge) end
  end
  tolerance, gap = math.min(tolerance, policy[2]), math.max(gap, policy[3])
  scopes[number] = scope
end

-- How long before its slot an id may come back, and how far ahead a newcomer is admitted: as in pace.ts.
local function earlyOf(late)
  return math.min(math.floor(late / 2), 120)
end
local early = earlyOf(tolerance)
