-- Moves a used slot to the later instant at which its alert really left, so that the next slots keep their distance from that.
--
-- KEYS    for each scope: the sent slots; one hash tag
-- ARGV[1] the id
-- ARGV[2] the instant, epoch ms; a later one than now counts as now
-- ARGV[3] the time in epoch ms, in tests only; '' for Redis's clock
--
-- Answers 1 if it moved, else 0. It never moves to earlier, so a resent call does nothing. In one step, so that the key's
-- expiry always fits its newest entry.

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
