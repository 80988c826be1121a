-- Included by admit.lua for an ask with `join`, before it is decided. Needs what waiting.lua and ended.lua give, `join`, `findSlot`,
-- `sentAt`, `slot`, `isTooLong`, `mustWait`. Sets `group` (what waits under its key), `field` (where that is), `isHolder` (the id has its
-- slot), `becomesHolder` (it has from now on, if it must wait), `counted` (what the digest was made of when it was admitted).

-- The slot that another id waits for, or nil if it has none, or has not come for so long that it may never come.
local function slotOf(entry)
  for _, set in ipairs({ first.reserved, category and category.held }) do
    local score = tonumber(redis.call('ZSCORE', set.key, entry) or nil)
    if score and score <= set.lastGood and score >= now - NO_SHOW_MS then return score end
  end
  return nil
end

-- Gives this id the slots of another one.
local function takeOver(entry)
  for _, scope in ipairs(scopes) do
    for _, set in ipairs({ scope.reserved, scope.held }) do
      local score = redis.call('ZSCORE', set.key, entry)
      if score then
        redis.call('ZREM', set.key, entry)
        redis.call('ZADD', set.key, score, id)
      end
    end
  end
end

field = join.kind .. ':' .. join.key
local isNew = not sentAt and not slot

if join.kind == 'latest' then
  group = readWaiting(field)
  isHolder = group and group.name == name
  becomesHolder = isNew or isHolder
  if group and not isHolder and (isNew or renew) and join.at < group.at then
-- include write.lua

    for _, scope in ipairs(scopes) do drop(scope.sent) end -- it missed its slot: that one is free again
    writeEnd(name, 'superseded', group.name)
    return endedReply('superseded', group.name, 0)
  end
  if group and not isHolder and isNew then
    local itsSlot = slotOf(group.entry)
    if itsSlot and itsSlot > now + early and isTooLong(itsSlot) then
      return mustWait(itsSlot, false, {})
    end
    if group.entry ~= '' then writeEnd(group.name, 'superseded', name) end
    if itsSlot then
      takeOver(group.entry)
      findSlot()
    end
  end
else
  local held = readWaiting('holder:' .. name)
  if held and not held.field then
    counted = held -- it was admitted before
  else
    if held then field = held.field end
    group = readWaiting(field)
    isHolder = group and group.name == name
    local hasRoom = group and group.count < join.max and (not group.expires or join.expires and join.expires <= group.expires)
    if isNew and not isHolder and hasRoom and slotOf(group.entry) then
      group.count = group.count + 1
      writeWaiting(field, group, group.kept - now)
      writeEnd(name, 'merged', group.name)
      return endedReply('merged', group.name, 0)
    end
    becomesHolder = isNew or isHolder
  end
end
