-- Moves reservations to other slots, if each still has the slot that was read.
--
-- KEYS    as in admit.lua, with every category among the scopes
-- ARGV[1] JSON, for each reservation {entry, number of its category's scope or 0, 1 if it is held back, its slot, 1 if it is to be
--         held back, its new slot; then, if there is one, the note of its order (waiting.lua), and until when that is kept, epoch
--         ms}
-- ARGV[2] from this instant on nothing is moved, epoch ms: an id that is to be overtaken may have been sent by then; '' for no bound
--
-- Answers the positions in that list, from 1, of the reservations that were moved. A reservation that was sent, removed or
-- moved since it was read is left as it is. Answers an error, and moves nothing, if a newer version wrote the state
-- (format.lua). All in one step, so that a key's expiry always fits its newest entry.

-- include ../../redis/clock.lua

-- include format.lua

local newer = refusalOf(redis.call('HGET', KEYS[1], 'format'))
if newer then return newer end

if ARGV[2] ~= '' and clockNow() >= tonumber(ARGV[2]) then return {} end

local NO_SHOW_MS = 60000 -- an overdue reservation is forgotten after this long

local function setsOf(scope)
  return KEYS[3 * scope - 1], KEYS[3 * scope]
end

local waitingKey = KEYS[#KEYS]
local moved, touched, notesEnd = {}, {}, 0
local function add(key, at, entry)
  redis.call('ZADD', key, string.format('%d', at), entry)
  touched[key] = true
end
local function remove(key, entry)
  if redis.call('ZREM', key, entry) == 1 then touched[key] = true end
end

for number, item in ipairs(cjson.decode(ARGV[1])) do
  local entry, scope, wasHeldBack, slot, isHeldBack, at, note, kept = unpack(item)
  local reserved, heldBack
  if scope > 0 then reserved, heldBack = setsOf(scope) end
  if tonumber(redis.call('ZSCORE', wasHeldBack == 1 and heldBack or KEYS[3], entry) or nil) == slot then
    if isHeldBack == 1 then
      add(heldBack, at, entry)
      if wasHeldBack == 0 then
        remove(KEYS[3], entry)
        remove(reserved, entry)
      end
    else
      add(KEYS[3], at, entry)
      if reserved then add(reserved, at, entry) end
      if wasHeldBack == 1 then remove(heldBack, entry) end
    end
    if note then
      redis.call('HSET', waitingKey, 'order:' .. entry, note)
      notesEnd = math.max(notesEnd, kept)
    end
    moved[#moved + 1] = number
  end
end
if notesEnd > clockNow() + redis.call('PTTL', waitingKey) then
  redis.call('PEXPIREAT', waitingKey, string.format('%.0f', notesEnd))
end
for key in pairs(touched) do
  local last = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2]
  if last and tonumber(last) > 0 then redis.call('PEXPIREAT', key, string.format('%d', last + NO_SHOW_MS)) end
end
return moved
