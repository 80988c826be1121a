-- Stores or removes a policy or a block that an operator sets for one recipient.
--
-- KEYS[1] the recipient's settings
-- ARGV[1] 'limit', 'unlimit', 'block' or 'unblock'
-- ARGV[2] the time in epoch ms, in tests only; '' for Redis's clock
-- ARGV[3] when the policy or block ends, epoch ms; '' for no end
-- ARGV[4] the policy as in admit.lua, or the reason of the block
-- ARGV[5] the most that the end may lie ahead, ms; '' for no bound
--
-- Answers {done, now}: done is 1, or 0 if there was nothing to remove, or the end is not ahead (nothing is written then).
--
-- In one step, so that the key's expiry always fits its content: it expires with the later end of the two. With a policy
-- without an end it never expires, since that is configuration.

-- include clock.lua

local what, ends, now = ARGV[1], tonumber(ARGV[3]), clockNow(ARGV[2])
if ends and (ends <= now or ends - now > (tonumber(ARGV[5]) or math.huge)) then return { 0, now } end

local fields = (what == 'block' or what == 'unblock') and { 'blockedUntil', 'blockReason' } or { 'policyUntil', 'policy' }
local before = redis.call('HMGET', KEYS[1], unpack(fields))
redis.call('HDEL', KEYS[1], unpack(fields))
if what == 'limit' or what == 'block' then
  redis.call('HSET', KEYS[1], fields[2], ARGV[4])
  if ends then redis.call('HSET', KEYS[1], fields[1], ARGV[3]) end
end

local policy, policyEnd, blockEnd = unpack(redis.call('HMGET', KEYS[1], 'policy', 'policyUntil', 'blockedUntil'))
if policy and not policyEnd then
  redis.call('PERSIST', KEYS[1])
elseif policy or blockEnd then
  redis.call('PEXPIREAT', KEYS[1], math.max(tonumber(policyEnd or 0), tonumber(blockEnd or 0)))
end
local wasInForce = before[2] and (tonumber(before[1] or nil) or math.huge) > now
return { (what == 'limit' or what == 'block' or wasInForce) and 1 or 0, now }
