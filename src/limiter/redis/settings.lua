-- Stores or removes a policy, a block or quiet hours that an operator sets for one recipient.
--
-- KEYS[1] the recipient's settings
-- ARGV[1] 'limit', 'unlimit', 'block', 'unblock', 'quiet' or 'unquiet'
-- ARGV[2] when the policy or block ends, epoch ms; '' for no end
-- ARGV[3] the policy as in admit.lua, the reason of the block, or the quiet hours as JSON
-- ARGV[4] the most that the end may lie ahead, ms; '' for no bound
--
-- Answers {done, now}: done is 1, or 0 if there was nothing to remove, or if the end is not ahead (then nothing is written).
--
-- Answers an error, and writes nothing, if a newer version wrote the settings (format.lua).
--
-- All in one step, so that the key's expiry always fits its content: the key expires when both the policy and the block have
-- ended. With quiet hours, or a policy without an end, it never expires, since these are configuration.

-- include ../../redis/clock.lua

-- include format.lua

local newer = refusalOf(redis.call('HGET', KEYS[1], 'format'))
if newer then return newer end

local what, ends, now = ARGV[1], tonumber(ARGV[2]), clockNow()
if ends and (ends <= now or ends - now > (tonumber(ARGV[4]) or math.huge)) then return { 0, now } end

local FIELDS = { block = { 'blockedUntil', 'blockReason' }, limit = { 'policyUntil', 'policy' }, quiet = { 'quietUntil', 'quiet' } }
local stores = FIELDS[what] ~= nil
local fields = FIELDS[stores and what or string.sub(what, 3)]
local before = redis.call('HMGET', KEYS[1], unpack(fields))
redis.call('HDEL', KEYS[1], unpack(fields))
if stores then
  redis.call('HSET', KEYS[1], fields[2], ARGV[3])
  if ends then redis.call('HSET', KEYS[1], fields[1], ARGV[2]) end
end

local policy, policyEnd, blockEnd, quiet = unpack(redis.call('HMGET', KEYS[1], 'policy', 'policyUntil', 'blockedUntil', 'quiet'))
if quiet or policy and not policyEnd then
  redis.call('PERSIST', KEYS[1])
elseif policy or blockEnd then
  redis.call('PEXPIREAT', KEYS[1], math.max(tonumber(policyEnd or 0), tonumber(blockEnd or 0)))
end
local wasInForce = before[2] and (tonumber(before[1] or nil) or math.huge) > now
return { (stores or wasInForce) and 1 or 0, now }
