-- Gives back an id's slot; or all that a notification holds when it ends.
--
-- KEYS[1] what waits (waiting.lua); KEYS[2...] each set that may contain the id: the sent ones (a refund), or the reserved and
--         held-back ones; one hash tag
-- ARGV[1] the id
-- ARGV[2] '' to give back the slot alone; else the notification's name, which leaves what it waits in; ARGV[3] when it was enqueued
--         first; ARGV[4] 'ended', 'dead' if it becomes a dead letter, 'unseen' if it does and certainly nobody was alerted: then the
--         parts of its digest that have not ended are sent without it
--
-- Answers 1 if there was a slot, else 0; the id that leads its digest from now on and the slot of that, '' and 0 if there is none; and
-- what its digest is made of if nobody else leads it: count and own, 0 and 0 for none.
--
-- In one step, so that a key's expiry always fits its newest entry: if that is removed, the expiry moves to earlier by the
-- difference; a key whose other entries count no longer is removed.

-- include ../../redis/clock.lua

local now = clockNow()
local waitingKey, id, name, born, how = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3] or 0), ARGV[4]

-- include waiting.lua

local entry, slot, digest

-- Those that were merged into it, and do not know it yet, wait again: as a digest of their own, which may go at once.
local function handBack(sets)
  local left = {}
  for _, part in ipairs(digest.parts or {}) do
    local ended = readWaiting('end:' .. part[1])
    if ended and ended.how == 'merged' and ended.by == name then left[#left + 1] = part end
  end
  if #left == 0 then return end
  local field = 'full:' .. who .. ' ' .. string.format('%.0f', now)
  for _, part in ipairs(left) do
    dropWaiting('end:' .. part[1])
    writeWaiting('part:' .. part[1], { field = field, name = nameOf(part) })
  end
  digest.count, digest.parts = digest.count - #left, {}
  entry = handOn(field, { who = who, entry = id, parts = left, count = #left + 1, own = 1 }, sets)
  slot = now
end

if name ~= '' and redis.call('EXISTS', waitingKey) == 1 then
  local sets = { unpack(KEYS, 2) }
  entry, slot, digest = leave(sets)
  local led, whose = readOwn('holder:')
  if led and led.count then
    digest = led
    if how == 'unseen' then handBack(sets) end
    if how ~= 'ended' then writeWaiting('holder:' .. whose, led, DEAD_KEPT_MS) end
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
