-- Reads what is stored about one recipient, in parts. Writes nothing.
--
-- KEYS    as in admit.lua, with every category among the scopes, and without what waits
-- ARGV[1] JSON, the policies of the scopes as in admit.lua
-- ARGV[2] how many entries of each set to leave out, from the oldest
-- ARGV[3] how many entries of each set to answer at most
--
-- Answers {now, stored policy, end of that policy, end of the block, reason of the block, sets, stored quiet hours}. What does
-- not exist or has ended is false. `sets` has, for each scope, three lists of entries with their scores: the sent, the reserved
-- and the held-back slots (the last one empty in the first scope).

local id, member = '', ''

-- include ../../redis/clock.lua

local now = clockNow()
local policies = cjson.decode(ARGV[1])
local ofLimiter = policies[1]

-- include scopes.lua

local function entries(set, keep)
  local bounds = { string.format('%.0f', now - keep), string.format('%.0f', set.lastGood) }
  return redis.call('ZRANGEBYSCORE', set.key, bounds[1], bounds[2], 'WITHSCORES', 'LIMIT', ARGV[2], ARGV[3])
end

local sets = {}
for _, scope in ipairs(scopes) do
  sets[#sets + 1] = entries(scope.sent, keepOf(scope.sent))
  sets[#sets + 1] = entries(scope.reserved, NO_SHOW_MS)
  sets[#sets + 1] = scope.heldBack and entries(scope.heldBack, NO_SHOW_MS) or {}
end
local inForce = policies[1] ~= ofLimiter
return {
  now,
  inForce and redis.call('HGET', KEYS[1], 'policy'),
  inForce and policyUntil or false,
  blockedUntil or false,
  blockedUntil and redis.call('HGET', KEYS[1], 'blockReason') or false,
  sets,
  storedQuiet or false,
}
