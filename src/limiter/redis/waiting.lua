-- Included by admit.lua, cancel.lua, end.lua and release.lua. Needs `now`, `waitingKey`, and the notification's `name` and `born`. Gives
-- `who`, `readOwn`, `readWaiting`, `writeWaiting`, `dropWaiting`, `writeEnd`, `tell`, `writeFirst`, `moveSlot`, `readGroup`, `handOn`, `leave`,
-- and `settle`, to be called last.
--
-- A recipient's hash with what waits together, and what ends without an alert of its own. Its values are JSON objects; `kept`:
-- until when the field is kept, epoch ms. `who` names a notification: the id of its first job, and when that was enqueued. So
-- its replays have the same `who`, and another notification with the same id has another `who`. `name` is the id of its present
-- job. Fields:
--   end:<who>      the notification ends without an alert of its own. how: 'canceled', 'superseded' or 'merged'; by: the name
--                  of the notification that took its slot, or of the digest; name: of its own job; told: 1 if a pass knows
--                  it, and ends the job, or if a cancel was answered so. If how is 'sent', it was sent without a slot, so it is
--                  too late to cancel it
--   latest:<key>   of the notifications that wait under a collapse id only the newest is sent. who, name, entry: that
--                  notification, and its id, which has the slot; at: since when it waits; sent: {name, at, who} of the
--                  newest that was admitted. If the newest was admitted, entry is ''
--   digest:<key>   the digest that waits. who, name, entry: its leader, and the leader's id, which has the slot; parts: the
--                  other notifications, each {who, when it expires or 0, its id, its name if the id does not begin with that};
--                  count: of how many notifications it is made; own: 0 if the leader's text was canceled, but the digest is
--                  still sent for others that joined under a version that knew no parts; expires: when the leader expires; led:
--                  when this leader took over from another one
--   full:<...>     a digest that takes no more parts, with the same content
--   holder:<who>   the notification leads a digest: field (where the digest is stored); or, after its admission, count, own and
--                  parts
--   part:<who>     the notification waits in a digest, or has the slot of a `latest`: field (where the digest or `latest` is
--                  stored). If field is '', it waits for the end of the quiet time, without a slot; name: of its job
--   order:<entry>  the order of the reservation with this entry. first: 1 if it goes before others; else times: how often
--                  others have overtaken it, and lateMs: by how much later that has made it. Kept as long as the reservation
--   #              at: the cursor from which the next search for expired fields goes on

local WAITS_KEPT_MS = 34560000000 -- 400 days: the longest that a job may wait, and some weeks in which no worker may run
local DEAD_KEPT_MS = 691200000 -- 8 days: if a worker dies just after it gave this back, its job comes again within this time
local NEWEST_KEPT_MS = 604800000 -- for so long after a `latest` was sent, no older one is sent
local FEW = 32
local cursorField = '#'
local longestKept = 0 -- until when the fields that this script wrote are kept

local function readWaiting(field)
  local text = redis.call('HGET', waitingKey, field)
  local value = text and cjson.decode(text)
  return value and value.kept > now and value or nil
end

local function writeWaiting(field, value, keptMs)
  value.kept = now + (keptMs or WAITS_KEPT_MS)
  longestKept = math.max(longestKept, value.kept)
  redis.call('HSET', waitingKey, field, cjson.encode(value))
end

local function dropWaiting(field)
  redis.call('HDEL', waitingKey, field)
end

local who = (string.match(name, '^(..-)#[rd]%d') or name) .. '@' .. string.format('%.0f', born)

-- What is stored of this notification, and under which name: `who`, or `name` for what a version before 0.2 wrote, without
-- `born`.
local function readOwn(kind)
  local value = readWaiting(kind .. who)
  if value then return value, who end
  value = readWaiting(kind .. name)
  return value, value and name
end

-- Stores how a notification ends, unless an earlier end of it is stored.
local function writeEnd(whose, itsName, how, by)
  if not readWaiting('end:' .. whose) then writeWaiting('end:' .. whose, { how = how, by = by, name = itsName }) end
end

-- A pass learns how the notification ends. From now on that stays: the pass ends the job. So a cancel can no longer be taken
-- back, and a part of a digest can no longer be handed back.
local function tell(ended, whose)
  if ended.told then return end
  ended.told = 1
  writeWaiting('end:' .. whose, ended, ended.kept - now)
end

local function nameOf(part)
  return part[4] or string.match(part[3], '^(.*)/%d+$')
end

-- Notes that the reservation with this entry goes first, for as long as the reservation is kept (NO_SHOW_MS in scopes.lua).
local function writeFirst(entry, slot)
  writeWaiting('order:' .. entry, { first = 1 }, slot - now + 60000)
end

-- Gives the slots of one id to another one, with the note of their order. The old id is removed last, so that the key is never empty
-- and keeps its expiry.
local function moveSlot(sets, from, to)
  local note = from ~= to and readWaiting('order:' .. from)
  if note then
    dropWaiting('order:' .. from)
    writeWaiting('order:' .. to, note, note.kept - now)
  end
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

-- Reads the digest or the `latest` that this field contains.
local function readGroup(field)
  local group = readWaiting(field)
  if group then group.who, group.parts, group.own = group.who or group.name, group.parts or {}, group.own or 1 end
  return group
end

-- The leader leaves its digest. The part that expires last becomes the leader, so that no part outlives the leader, and gets
-- the slot. Answers the new leader's id and slot; nil if no part is left.
local function handOn(field, group, sets)
  local best
  for index, part in ipairs(group.parts) do
    local lasts = part[2] == 0 and math.huge or part[2]
    if not best or lasts > best.lasts then best = { index = index, lasts = lasts } end
  end
  dropWaiting('holder:' .. group.who)
  if not best then
    dropWaiting(field)
    return nil
  end
  local part = table.remove(group.parts, best.index)
  local slot = moveSlot(sets, group.entry, part[3])
  group.count, group.own, group.led = group.count - group.own, 1, now
  group.who, group.expires, group.entry = part[1], part[2] > 0 and part[2] or nil, part[3]
  group.name = nameOf(part)
  dropWaiting('part:' .. group.who)
  writeWaiting('holder:' .. group.who, { field = field })
  writeWaiting(field, group)
  return group.entry, slot
end

-- Takes the notification out of its digest or `latest`. Answers as handOn. The third answer is the digest, if it still counts
-- other notifications but none can lead it: they have ended under a version that knew no parts.
local function leave(sets)
  local kind, place, whose = 'holder:', readOwn('holder:')
  if not place then
    kind, place, whose = 'part:', readOwn('part:')
  end
  if not place or not place.field then return nil end
  dropWaiting(kind .. whose)
  local field, group = place.field, readGroup(place.field)
  if not group then return nil end
  if string.sub(field, 1, 7) == 'latest:' then
    if group.who ~= who then return nil end
    if group.sent then
      local sentName, at, sentWho = unpack(group.sent)
      writeWaiting(field, { who = sentWho, name = sentName, entry = '', at = at, sent = group.sent }, NEWEST_KEPT_MS)
    else
      dropWaiting(field)
    end
    return nil
  end
  if group.who == whose then
    local entry, slot = handOn(field, group, sets)
    return entry, slot, not entry and group.count > 1 and group or nil
  end
  for index, part in ipairs(group.parts) do
    if part[1] == who then
      table.remove(group.parts, index)
      group.count = group.count - 1
      writeWaiting(field, group)
      return nil
    end
  end
end

-- Sets the key's expiry, and removes fields that are no longer to be kept. If there are many fields, each call checks only some
-- of them in turn, since a recipient may have a hundred thousand.
local function settle()
  local all, cursor, last = nil, nil, 0
  if redis.call('HLEN', waitingKey) <= FEW then
    all = redis.call('HGETALL', waitingKey)
  else
    local text = redis.call('HGET', waitingKey, cursorField)
    cursor, all = unpack(redis.call('HSCAN', waitingKey, text and cjson.decode(text).at or '0', 'COUNT', FEW))
    last = math.max(now + redis.call('PTTL', waitingKey), longestKept) -- the expiry covers all that was written before
  end
  for index = 1, #all, 2 do
    local kept = all[index] == cursorField and 0 or all[index] == 'pruneAt' and 0 or cjson.decode(all[index + 1]).kept
    if kept <= now and (not cursor or all[index] ~= cursorField) then dropWaiting(all[index]) end
    last = math.max(last, kept)
  end
  if cursor then redis.call('HSET', waitingKey, cursorField, cjson.encode({ at = cursor, kept = last })) end
  if last > 0 then redis.call('PEXPIREAT', waitingKey, string.format('%.0f', last)) end
end
