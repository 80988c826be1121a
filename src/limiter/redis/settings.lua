-- Stores or removes what an operator sets for one recipient, and moves the reservations that do not keep it.
--
-- KEYS    as in admit.lua, with every category among the scopes
-- ARGV[1] 'limit', 'unlimit', 'block' or 'unblock'
-- ARGV[2] the time in epoch ms, in tests only; '' for that of Redis
-- ARGV[3] JSON, the policies of the scopes as in admit.lua
-- ARGV[4] the end, epoch ms, of what is set; '' where it has none
-- ARGV[5] the policy as in admit.lua, or the reason of the block
-- ARGV[6] the most that the end may lie ahead, ms; '' for no bound
--
-- Answers {done, now}: done is 1, or 0 where there was nothing to remove or the end is not ahead (nothing is written).
--
-- In one step, so that every ask sees the old settings with the old slots, or the new with the new. The key expires with
-- the last of its ends, and not at all with a policy that has none: that is configuration.

local what, id, member = ARGV[1], '', ''
local now = tonumber(ARGV[2])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local policies = cjson.decode(ARGV[3])
local ends = tonumber(ARGV[4])
if ends and (ends <= now or ends - now > (tonumber(ARGV[6]) or math.huge)) then return { 0, now } end

local fields = what == 'block' and { 'blockedUntil', 'blockReason' } or { 'policyUntil', 'policy' }
if what == 'unblock' then fields = { 'blockedUntil', 'blockReason' } end
local before = redis.call('HMGET', KEYS[1], unpack(fields))
redis.call('HDEL', KEYS[1], unpack(fields))
if what == 'limit' or what == 'block' then
  redis.call('HSET', KEYS[1], fields[2], ARGV[5])
  if ends then redis.call('HSET', KEYS[1], fields[1], ARGV[4]) end
end

local policyHere, policyEnd, blockEnd = unpack(redis.call('HMGET', KEYS[1], 'policy', 'policyUntil', 'blockedUntil'))
if policyHere and not policyEnd then
  redis.call('PERSIST', KEYS[1])
elseif policyHere or blockEnd then
  redis.call('PEXPIREAT', KEYS[1], math.max(tonumber(policyEnd or 0), tonumber(blockEnd or 0)))
end
if what == 'unlimit' or what == 'unblock' then
  return { before[2] and (tonumber(before[1] or nil) or math.huge) > now and 1 or 0, now }
end

-- include scopes.lua

-- Who waits, by slot. An id is reserved in the first scope, in its category, or in both.
local waiting, known = {}, {}
for _, scope in ipairs(scopes) do
  scope.instants, scope.last = instantsOf(scope), 0
  prune(scope.reserved)
  local entries = redis.call('ZRANGE', scope.reserved.key, 0, -1, 'WITHSCORES')
  for index = 1, #entries, 2 do
    local holder, slot = entries[index], tonumber(entries[index + 1])
    if not known[holder] then
      known[holder] = { holder = holder, slot = slot, scopes = {} }
      waiting[#waiting + 1] = known[holder]
    end
    table.insert(known[holder].scopes, scope)
  end
end
table.sort(waiting, function(a, b) return a.slot < b.slot or a.slot == b.slot and a.holder < b.holder end)

-- Later only: whoever holds a slot comes back at the old one, and is told the new. To earlier, nobody would come.
for _, each in ipairs(waiting) do
  local at = math.max(each.slot, blockedUntil or 0)
  for _, scope in ipairs(each.scopes) do
    at = math.max(at, scope.last)
    for _, limit in ipairs(scope.limits) do
      local before = scope.instants[#scope.instants - limit.max + 1]
      if before then at = math.max(at, before + limit.window) end
    end
  end
  for _, scope in ipairs(each.scopes) do
    insert(scope.instants, at)
    scope.last = at
    if at > each.slot then
      redis.call('ZADD', scope.reserved.key, at, each.holder)
      scope.isMoved = true
    end
  end
end
for _, scope in ipairs(scopes) do
  if (scope.isMoved or scope.reserved.skipped > 0) and scope.last > 0 then redis.call('PEXPIREAT', scope.reserved.key, scope.last + NO_SHOW_MS) end
end
return { 1, now }
