-- Moves a slot that was used to the instant at which its alert went out, later than the slot: the next one keeps its
-- distance from there.
--
-- KEYS    for each scope: the slots sent; one hash tag
-- ARGV[1] the id
-- ARGV[2] the instant, epoch ms; no later than now is believed
-- ARGV[3] the time in epoch ms, in tests only; '' for that of Redis
--
-- Answers 1 where it moved, else 0: it never moves to earlier, so telling it twice does nothing. In one step, so that the
-- set's expiry always belongs to the newest entry.

-- include clock.lua

local id, at = ARGV[1], math.min(tonumber(ARGV[2]), (clockNow(ARGV[3])))

local function newest(key)
  return tonumber(redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2])
end

local moved = 0
for _, key in ipairs(KEYS) do
  local slot = tonumber(redis.call('ZSCORE', key, id) or nil)
  if slot and slot < at then
    local before = newest(key)
    redis.call('ZADD', key, at, id)
    local left = redis.call('PTTL', key)
    if at > before and left > 0 then redis.call('PEXPIRE', key, left + (at - before)) end
    moved = 1
  end
end
return moved
