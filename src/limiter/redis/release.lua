-- Gives an id's slot back.
--
-- KEYS    each set that may contain it: the sent ones (refund), or the reserved and held-back ones (cancel); one hash tag
-- ARGV[1] the id
--
-- Answers 1 if there was one, else 0. In one step, so that the key's expiry always fits its newest entry: if the newest entry is
-- removed, the expiry moves to earlier by the difference.

local function newest(key)
  return tonumber(redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2])
end

local released = 0
for _, key in ipairs(KEYS) do
  local before = newest(key)
  if redis.call('ZREM', key, ARGV[1]) == 1 then
    released = 1
    local after = newest(key)
    local left = redis.call('PTTL', key)
    if after and after > 0 and after < before and left > 0 then redis.call('PEXPIRE', key, math.max(left - (before - after), 1)) end
  end
end
return released
