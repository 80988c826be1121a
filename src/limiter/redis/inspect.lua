-- Reads what is stored about one recipient, in parts. Writes nothing.
--
-- KEYS    as in admit.lua, with every category among the scopes
-- ARGV[1] JSON, the policies of the scopes as in admit.lua
-- ARGV[2] how many entries of each set to skip, from the oldest
-- ARGV[3] how many entries of each set to answer at most
--
-- Answers {now, stored policy, its end, block's end, block's reason, sets, stored quiet hours}. What does not exist or has ended is
-- false. Sets are lists of entry and score: for each scope the sent slots, the reserved ones, and the held-back ones (none in the
-- first scope).

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
