-- Gives back an id's slot; or all that a notification holds when it has ended.
--
-- KEYS[1] what waits (waiting.lua); KEYS[2...] each set that may contain the id: the sent ones (a refund), or the reserved and
--         held-back ones; one hash tag
-- ARGV[1] the id
-- ARGV[2] '' to give back the slot alone; else the notification's name, which leaves what it waits in; ARGV[3] when it was enqueued
--         first; ARGV[4] 1 if it becomes a dead letter: how it ends, and of how many it is made, is kept for its replay
--
-- Answers 1 if there was a slot, else 0; the id that leads its digest from now on and the slot of that, '' and 0 if there is none; and
-- what its digest is made of if nobody else leads it: count and own, 0 and 0 for none.
--
-- In one step, so that a key's expiry always fits its newest entry: if that is removed, the expiry moves to earlier by the
-- difference; a key whose other entries count no longer is removed.

-- include ../../redis/clock.lua

local now = clockNow()
local waitingKey, id, name, born = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3] or 0)

-- include waiting.lua

local entry, slot, digest
if name ~= '' and redis.call('EXISTS', waitingKey) == 1 then
  entry, slot, digest = leave(name, born, { unpack(KEYS, 2) })
  for _, kind in ipairs({ 'end:', 'holder:' }) do
    local value, field = readOwn(kind, name, born)
    if value and value.count then digest = value end
    -- Its job may come back if its worker dies now.
    if value and ARGV[4] ~= '1' then writeWaiting(field, value, math.min(value.kept - now, ENDED_KEPT_MS)) end
  end
  settle()
end

local function newest(key)
  return tonumber(redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2])
end

local released = 0
for index = 2, #KEYS do
  local key = KEYS[index]
  local before = newest(key)
  if redis.call('ZREM', key, id) == 1 then
    released = 1
    local after = newest(key)
    local left = redis.call('PTTL', key)
    if after and after > 0 and after < before and left > 0 then redis.call('PEXPIRE', key, left - (before - after)) end
  end
end
return { released, entry or '', slot or 0, digest and digest.count or 0, digest and digest.own or 0 }
