-- Included by admit.lua and cancel.lua. Needs `now` and `waitingKey`. Gives `readWaiting`, `writeWaiting`, `writeEnd`, `dropWaiting`.
--
-- A recipient's hash with what waits under one key, and what will not be sent. Its values are JSON objects; `kept`: until when,
-- epoch ms. A notification is named by its job's id. Fields:
--   end:<name>     it ends without an alert of its own. how: 'canceled', 'superseded' or 'merged' (by: the one that took its slot,
--                  or the digest); or 'sent': it was sent without a slot, so it is too late to cancel it
--   latest:<key>   of those that wait under a collapse id only the newest is sent. name, entry: the id that has the slot; at: its
--                  age. After its admission entry is ''
--   digest:<key>   the digest that waits. name, entry: the id that has the slot; count: how many it is made of; own: 1 if its own
--                  text is one of them; expires: epoch ms
--   full:<name>    the same for a digest that takes no more
--   holder:<name>  it has the slot of a digest: field (where that is); or, after its admission, count and own

local ENDED_KEPT_MS = 86400000 -- a job that was lost with its worker comes back within this time
local MOST_UNPRUNED = 100
local PRUNE_EVERY_MS = 3600000

local function readWaiting(field)
  local text = redis.call('HGET', waitingKey, field)
  local value = text and cjson.decode(text)
  return value and value.kept > now and value or nil
end

local function dropWaiting(field)
  redis.call('HDEL', waitingKey, field)
end

-- Removes what is kept no longer. Looks at everything, so at most once an hour.
local function pruneWaiting()
  if redis.call('HLEN', waitingKey) <= MOST_UNPRUNED then return end
  if now < tonumber(redis.call('HGET', waitingKey, 'pruneAt') or 0) then return end
  local all = redis.call('HGETALL', waitingKey)
  for index = 1, #all, 2 do
    if all[index] ~= 'pruneAt' and cjson.decode(all[index + 1]).kept <= now then redis.call('HDEL', waitingKey, all[index]) end
  end
  redis.call('HSET', waitingKey, 'pruneAt', string.format('%.0f', now + PRUNE_EVERY_MS))
end

local function writeWaiting(field, value, keptMs)
  local kept = math.max(keptMs, 1)
  value.kept = now + kept
  redis.call('HSET', waitingKey, field, cjson.encode(value))
  if redis.call('PTTL', waitingKey) < kept then redis.call('PEXPIRE', waitingKey, string.format('%.0f', kept)) end
  pruneWaiting()
end

-- Only the first end of a notification is stored.
local function writeEnd(name, how, by, keptMs)
  local field = 'end:' .. name
  if not readWaiting(field) then writeWaiting(field, { how = how, by = by }, math.max(keptMs or 0, ENDED_KEPT_MS)) end
end
