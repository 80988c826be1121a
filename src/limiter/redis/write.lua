-- Included by admit.lua. Needs all that scopes.lua gives, `due`. Gives `MISSED`, `isAwaited`, `prune`, `put`, `putWaiting`, `drop`.
-- Ranks shift with a write, so all that is still to be looked up in a set is looked up before it.

-- Forgets the damage, and what has been kept for long enough.
local function prune(set)
  if not scoreAt(set, 0) then return end
  if set.skipped > 0 then redis.call('ZREMRANGEBYSCORE', set.key, beyond(set.lastGood), '+inf') end
  redis.call('ZREMRANGEBYSCORE', set.key, '0', beyond(now - keepOf(set)))
end

-- Beside those that wait, how many came late one after the other is kept under this name. The score is the negative of it, so that
-- it comes before all others.
local MISSED = '  missed'

-- Whether anybody else waits in a set.
local function isAwaited(set)
  local last = stored(set, 1)
  return last and last >= now - NO_SHOW_MS
end

-- Puts the id into a set; the key expires `keep` after its last entry.
local function put(set, at)
  local last = math.max(stored(set, 1) or 0, at)
  prune(set)
  redis.call('ZADD', set.key, text(at), set.entry)
  redis.call('PEXPIREAT', set.key, text(last + keepOf(set)))
end

-- The same among those that wait; and counts one that came late.
local function putWaiting(set, at, cameLate)
  if scoreAt(set, 0) and not isAwaited(set) then redis.call('ZREM', set.key, MISSED) end
  put(set, at)
  if cameLate then redis.call('ZINCRBY', set.key, -1, MISSED) end
end

-- Takes the id, and what is damage, out of a set; and the count of those that came late, where it came in time. The expiry changes
-- with the newest entry alone.
local function drop(set)
  if not set or not set.ownAt and set.skipped == 0 then return end
  local wasLast = set.skipped > 0 or set.ownAt >= scoreAt(set, 0)
  local last = wasLast and stored(set, 1)
  if set.skipped > 0 then prune(set) end
  if set.ownAt then redis.call('ZREM', set.key, set.entry, now <= due + hold and MISSED or set.entry) end
  if last and last > 0 then redis.call('PEXPIREAT', set.key, text(last + keepOf(set))) end
  set.scores, set.skipped, set.own, set.ownAt, set.ahead = {}, 0, nil, nil, nil -- ranks have shifted
end
