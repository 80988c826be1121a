-- Gives back the slot of an id; or, if its notification ends, everything that the notification holds.
--
-- KEYS[1] what waits (waiting.lua); KEYS[2...] each set that may contain the id: the sent ones (for a refund), or the reserved and
--         held-back ones; then, for a refund, the reserved and held-back ones, to see whether somebody waits. All keys share one
--         hash tag.
-- ARGV[1] the id
-- ARGV[2] '' to give back the slot alone; else the notification's name, to take it out of its digest or `latest` too
-- ARGV[3] when it was enqueued first
-- ARGV[4] 'ended'; 'dead' if it becomes a dead letter; 'unseen' if it becomes one and certainly nobody was alerted: then the
--         parts of its digest that have not ended are sent without it
-- ARGV[5] for a refund: the number of the last key that may contain the id; absent if all may
-- ARGV[6] for a refund: the only slot that is given back; '' or absent for any slot of the id
--
-- Answers {1 if there was a slot, else 0; the id that leads its digest from now on and the slot of that id, '' and 0 if there
-- is none; what its digest is made of if no other id leads it: count and own, 0 and 0 for none; 1 if a slot was given back and
-- somebody waits, else 0}.
--
-- All in one step, so that a key's expiry always fits its newest entry: if the newest entry is removed, the expiry moves to
-- earlier by the difference to the next one; a key whose other entries no longer count is removed.

-- include ../../redis/clock.lua

local now = clockNow()
local waitingKey, id, name, born, how = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3] or 0), ARGV[4]

-- include waiting.lua

local lastKey, only = tonumber(ARGV[5] or #KEYS), tonumber(ARGV[6] or '')
if only and tonumber(redis.call('ZSCORE', KEYS[2], id) or nil) ~= only then return { 0, '', 0, 0, 0, 0 } end

local entry, slot, digest

-- Parts that were merged into this digest, but whose jobs have not learned that yet, wait again, in a new digest that may go at
-- once. The others end as merged into this digest, which still counts them.
local function handBack(sets)
  local left = {}
  for _, part in ipairs(digest.parts or {}) do
    local ended = readWaiting('end:' .. part[1])
    if ended and ended.how == 'merged' and ended.by == name and not ended.told then left[#left + 1] = part end
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
redis.call('HDEL', waitingKey, 'order:' .. id)

local function newest(key)
  return tonumber(redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2])
end

local released = 0
for index = 2, lastKey do
  local key = KEYS[index]
  local before = newest(key)
  if redis.call('ZREM', key, id) == 1 then
    released = 1
    local after = newest(key)
    local left = redis.call('PTTL', key)
    if after and after > 0 and after < before and left > 0 then redis.call('PEXPIRE', key, left - (before - after)) end
  end
end
local waits = released == 1 and redis.call('EXISTS', unpack(KEYS, lastKey < #KEYS and lastKey + 1 or 2)) > 0
return { released, entry or '', slot or 0, digest and digest.count or 0, digest and digest.own or 0, waits and 1 or 0 }
