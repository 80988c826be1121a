-- Tells what is known about one recipient, and writes nothing.
--
-- KEYS    as in admit.lua, with every category among the scopes
-- ARGV[1] the time in epoch ms, in tests only; '' for that of Redis
-- ARGV[2] JSON, the policies of the scopes as in admit.lua
--
-- Answers {now, stored policy, its end, block's end, block's reason, sent, reserved}: what is not there, or has ended, is
-- false; sent and reserved are lists of entry and score. Sent is that of the first scope; reserved that of all, one after
-- the other, with who is reserved in two of them told twice.

local id, member = '', ''
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local policies = cjson.decode(ARGV[2])
local ofLimiter = policies[1]

-- include scopes.lua

local function entries(set, keep)
  local bounds = { string.format('%.0f', now - keep), string.format('%.0f', set.lastGood) }
  return redis.call('ZRANGEBYSCORE', set.key, bounds[1], bounds[2], 'WITHSCORES')
end

local inForce, reserved = policies[1] ~= ofLimiter, {}
for _, scope in ipairs(scopes) do
  for _, each in ipairs(entries(scope.reserved, NO_SHOW_MS)) do reserved[#reserved + 1] = each end
end
return {
  now,
  inForce and redis.call('HGET', KEYS[1], 'policy'),
  inForce and policyUntil or false,
  blockedUntil or false,
  blockedUntil and redis.call('HGET', KEYS[1], 'blockReason') or false,
  entries(scopes[1].sent, scopes[1].longest),
  reserved,
}
