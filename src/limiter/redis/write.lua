-- Included by admit.lua. Needs all that scopes.lua gives. Gives `prune`, `put`, `drop`.
-- A write shifts ranks, so look up everything that is needed of a set before writing to it.

-- Removes damage, and entries that were kept for long enough.
local function prune(set)
  if not scoreAt(set, 0) then return end
  if set.skipped > 0 then redis.call('ZREMRANGEBYSCORE', set.key, beyond(set.lastGood), '+inf') end
  redis.call('ZREMRANGEBYSCORE', set.key, '-inf', beyond(now - keepOf(set)))
end

-- Adds the id to a set; the key expires `keep` ms after its newest entry.
local function put(set, at)
  local last = math.max(stored(set, 1) or 0, at)
  prune(set)
  redis.call('ZADD', set.key, text(at), set.entry)
  redis.call('PEXPIREAT', set.key, text(last + keepOf(set)))
end

-- Removes the id and damage from a set. The expiry changes only if the newest entry does.
local function drop(set)
  if not set or not set.ownAt and set.skipped == 0 then return end
  local wasLast = set.skipped > 0 or set.ownAt >= scoreAt(set, 0)
  local last = wasLast and stored(set, 1)
  if set.skipped > 0 then prune(set) end
  if set.ownAt then redis.call('ZREM', set.key, set.entry) end
  if last and last > 0 then redis.call('PEXPIREAT', set.key, text(last + keepOf(set))) end
  set.scores, set.skipped, set.own, set.ownAt, set.ahead = {}, 0, nil, nil, nil -- ranks have shifted
end
