-- Included by admit.lua, cancel.lua and release.lua. Needs `now` and `waitingKey`. Gives `readOwn`, `readWaiting`, `writeWaiting`,
-- `dropWaiting`, `writeEnd`, `moveSlot`, `leave`, `handOn`, and `settle`, to be called last.
--
-- A recipient's hash with what waits together, and what ends without an alert of its own. Its values are JSON objects; `kept`: until
-- when, epoch ms; `born`: when the notification was enqueued first, so that one whose id is used again is not taken for it. A
-- notification is named by its job's id. Fields:
--   end:<name>     it ends without an alert of its own. how: 'canceled', 'superseded' or 'merged' (by: the one that took its slot,
--                  or the digest); or 'sent': it was sent without a slot, so it is too late to cancel it
--   latest:<key>   of those that wait under a collapse id only the newest is sent. name, entry: the id that has the slot; at: its
--                  age; sent: {name, age} of the newest that was admitted. After its admission entry is ''
--   digest:<key>   the digest that waits. name, entry: the id that has the slot, which leads it; parts: the others, each {name, born,
--                  when it expires or 0, its id if that is not `name/0`}; count: of how many it is made; own: 0 if a version that
--                  knew no parts canceled the text of its leader; expires: of the leader
--   full:<name>    the same for a digest that takes no more
--   holder:<name>  it leads a digest: field (where that is); or, after its admission, count and own
--   part:<name>    it waits in a digest, or has the slot of a `latest`: field. '': it waits for the end of the quiet time, without a
--                  slot

local WAITS_KEPT_MS = 34560000000 -- 400 days: the longest that a job may wait, and some weeks without workers
local ENDED_KEPT_MS = 86400000 -- a job that was lost with its worker at its end comes back within this time
local NEWEST_KEPT_MS = 604800000 -- no older `latest` is sent for so long after a newer one
local FEW = 32
local cursorField = '#'

local function readWaiting(field)
  local text = redis.call('HGET', waitingKey, field)
  local value = text and cjson.decode(text)
  return value and value.kept > now and value or nil
end

local function writeWaiting(field, value, keptMs)
  value.kept = now + (keptMs or WAITS_KEPT_MS)
  redis.call('HSET', waitingKey, field, cjson.encode(value))
end

local function dropWaiting(field)
  redis.call('HDEL', waitingKey, field)
end

-- The name of a dead letter's notification, of which this is a replay: `msg-1#r2` → `msg-1`; nil for others.
local function firstName(name)
  local first = string.match(name, '^(.-)#[rd]%d')
  return first ~= '' and first or nil
end

-- What is stored of this very notification. A replay is the same one.
local function readOwn(kind, name, born)
  local value = readWaiting(kind .. name)
  if value and (value.born or born) == born then return value, kind .. name end
  local first = firstName(name)
  value = first and readWaiting(kind .. first)
  if value and value.born == born then return value, kind .. first end
  return nil
end

-- Only the first end of a notification is stored.
local function writeEnd(name, born, how, by)
  if not readOwn('end:', name, born) then writeWaiting('end:' .. name, { how = how, by = by, born = born }) end
end

-- Gives the slots of one id to another one. The first goes last, so that the key keeps its expiry.
local function moveSlot(sets, from, to)
  local slot
  for _, key in ipairs(sets) do
    local score = redis.call('ZSCORE', key, from)
    if score then
      slot = tonumber(score)
      redis.call('ZADD', key, score, to)
      redis.call('ZREM', key, from)
    end
  end
  return slot
end

-- The leader leaves its digest. The part that expires last leads it from now on, so that none of the others outlives it; it gets
-- the leader's slot. Answers its id and slot, if there is one.
local function handOn(field, group, sets)
  local best
  for index, part in ipairs(group.parts) do
    local lasts = part[3] == 0 and math.huge or part[3]
    if not best or lasts > best.lasts then best = { index = index, lasts = lasts } end
  end
  dropWaiting('holder:' .. group.name)
  if not best then
    dropWaiting(field)
    return nil
  end
  local part = table.remove(group.parts, best.index)
  local entry = part[4] or part[1] .. '/0'
  local slot = moveSlot(sets, group.entry, entry)
  group.count, group.own = group.count - group.own, 1
  group.name, group.born, group.entry, group.expires = part[1], part[2], entry, part[3] > 0 and part[3] or nil
  dropWaiting('part:' .. group.name)
  writeWaiting('holder:' .. group.name, { field = field, born = group.born })
  writeWaiting(field, group)
  return entry, slot
end

-- Reads a digest, or the `latest` of a key.
local function readGroup(field)
  local group = readWaiting(field)
  if group then group.parts, group.own = group.parts or {}, group.own or 1 end
  return group
end

-- Takes a notification out of what it waits in. Answers as handOn; and what is left of a digest whose other parts have ended under a
-- version that knew no parts: nobody else can lead it.
local function leave(name, born, sets)
  local place, at = readOwn('holder:', name, born)
  if not place then place, at = readOwn('part:', name, born) end
  if not place or not place.field then return nil end
  dropWaiting(at)
  local field, group = place.field, readGroup(place.field)
  if not group then return nil end
  if string.sub(field, 1, 7) == 'latest:' then
    if group.name ~= name then return nil end
    if group.sent then
      writeWaiting(field, { name = group.sent[1], entry = '', at = group.sent[2], sent = group.sent }, NEWEST_KEPT_MS)
    else
      dropWaiting(field)
    end
    return nil
  end
  if group.name == name then
    local entry, slot = handOn(field, group, sets)
    return entry, slot, not entry and group.count > 1 and group or nil
  end
  for index, part in ipairs(group.parts) do
    if part[1] == name then
      table.remove(group.parts, index)
      group.count = group.count - 1
      writeWaiting(field, group)
      return nil
    end
  end
end

-- Sets the key's expiry, and removes what is kept no longer: all of that if there are few fields, else some of them in turn, since
-- a recipient may have a hundred thousand.
local function settle()
  local all, cursor, last = nil, nil, 0
  if redis.call('HLEN', waitingKey) <= FEW then
    all = redis.call('HGETALL', waitingKey)
  else
    local text = redis.call('HGET', waitingKey, cursorField)
    cursor, all = unpack(redis.call('HSCAN', waitingKey, text and cjson.decode(text).at or '0', 'COUNT', FEW))
    last = now + math.max(redis.call('PTTL', waitingKey), WAITS_KEPT_MS)
  end
  for index = 1, #all, 2 do
    local kept = all[index] == cursorField and 0 or all[index] == 'pruneAt' and 0 or cjson.decode(all[index + 1]).kept
    if kept <= now and (not cursor or all[index] ~= cursorField) then dropWaiting(all[index]) end
    last = math.max(last, kept)
  end
  if cursor then redis.call('HSET', waitingKey, cursorField, cjson.encode({ at = cursor, kept = last })) end
  if last > 0 then redis.call('PEXPIREAT', waitingKey, string.format('%.0f', last)) end
end
