-- Moves reservations to other slots, if they still have the slot at which they were read.
--
-- KEYS    as in admit.lua, with every category among the scopes
-- ARGV[1] JSON, a list of {entry, scope of its category or 0, 1 if it is held back, its slot, 1 if it is to be held back,
--         its new slot}
--
-- Answers the numbers, from 1, of those that were moved. Those that were sent, removed or moved since they were read are left as
-- they are. In one step, so that a key's expiry always fits its newest entry.

local NO_SHOW_MS = 60000 -- an overdue reservation is forgotten after this long

local function setsOf(scope)
  return KEYS[3 * scope - 1], KEYS[3 * scope]
end

local moved, touched = {}, {}
local function add(key, at, entry)
  redis.call('ZADD', key, string.format('%d', at), entry)
  touched[key] = true
end
local function remove(key, entry)
  if redis.call('ZREM', key, entry) == 1 then touched[key] = true end
end

for number, item in ipairs(cjson.decode(ARGV[1])) do
  local entry, scope, wasHeld, slot, isHeld, at = unpack(item)
  local reserved, held
  if scope > 0 then reserved, held = setsOf(scope) end
  if tonumber(redis.call('ZSCORE', wasHeld == 1 and held or KEYS[3], entry) or nil) == slot then
    if isHeld == 1 then
      add(held, at, entry)
      if wasHeld == 0 then
        remove(KEYS[3], entry)
        remove(reserved, entry)
      end
    else
      add(KEYS[3], at, entry)
      if reserved then add(reserved, at, entry) end
      if wasHeld == 1 then remove(held, entry) end
    end
    moved[#moved + 1] = number
  end
end
for key in pairs(touched) do
  local last = redis.call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2]
  if last and tonumber(last) > 0 then redis.call('PEXPIREAT', key, string.format('%d', last + NO_SHOW_MS)) end
end
return moved
