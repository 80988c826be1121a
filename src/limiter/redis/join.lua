-- Included by admit.lua after waiting.lua, for an ask with `join` or `claim`, or for a recipient who has the hash of waiting.lua.
-- Needs everything that admit.lua has defined above. Sets `noteDecision(answer)`, and may answer.
--
-- In this order: answers an id that ends without being sent; makes the ask a part of a digest, or its leader, or gives it the slot of
-- an older notification; defines how the decision is noted.

local name, born = options.name or string.match(id, '^(.*)/%d+$') or id, options.born or 0

local function endedReply(how, by, at)
  local answer = reply(6, at, first, NONE, -1, 0, {})
  answer[12], answer[13] = how, by or ''
  settle()
  return answer
end

-- It ends without being sent, so its slot is free again.
local ended = readOwn('end:', name, born)
if ended and ended.how ~= 'sent' then
  for _, scope in ipairs(scopes) do
    drop(scope.reserved)
    drop(scope.heldBack)
  end
  return endedReply(ended.how, ended.by, slot or 0)
end

local group, field -- what waits under the key of this ask, and the field that contains it
local isHolder, becomesHolder -- whether the id has the slot of `group`; whether it gets that slot if it must wait
local counted -- what the digest was made of when it was admitted
if join then
  local sets = { first.reserved.key, category and category.reserved.key, category and category.heldBack.key }

  -- The slot that another id waits for, or nil if it has none, or is a no-show.
  local function slotOf(entry)
    for _, set in ipairs({ first.reserved, category and category.heldBack }) do
      local score = tonumber(redis.call('ZSCORE', set.key, entry) or nil)
      if score and score <= set.lastGood and score >= now - NO_SHOW_MS then return score end
    end
    return nil
  end

  field = join.kind .. ':' .. join.key
  local isNew = not sentAt and not slot

  if join.kind == 'latest' then
    group = readGroup(field)
    isHolder = group and group.name == name
    becomesHolder = isNew or isHolder
    if group and not isHolder and (isNew or renew) and join.at < group.at then
      for _, scope in ipairs(scopes) do drop(scope.sent) end -- it missed its slot, which is free again
      writeEnd(name, born, 'superseded', group.name)
      return endedReply('superseded', group.name, 0)
    end
    if group and not isHolder and isNew and group.entry ~= '' then
      local itsSlot = slotOf(group.entry)
      if itsSlot and itsSlot > now + early and isTooLong(itsSlot) then
        return mustWait(itsSlot, false, {})
      end
      writeEnd(group.name, group.born, 'superseded', name)
      dropWaiting('part:' .. group.name)
      if itsSlot then
        moveSlot(sets, group.entry, id)
        findSlot()
      end
    end
  else
    local place = readOwn('holder:', name, born)
    local part = not place and readOwn('part:', name, born)
    if place and not place.field then
      counted = place -- it was admitted before
    else
      field = (place or part or { field = field }).field
      group = readGroup(field)
      isHolder = group and group.name == name
      local itsSlot = group and slotOf(group.entry)
      -- Its leader should have come before the parts, but has not: its job was removed, or its worker died.
      if part and group and not isHolder and (itsSlot or 0) <= now - GRACE_MS then
        handOn(field, group, sets)
        isHolder = group.name == name
        itsSlot = slotOf(group.entry)
        if isHolder then findSlot() end
        part = not isHolder
      end
      local hasRoom = group and group.count < join.max and (not group.expires or join.expires and join.expires <= group.expires)
      if group and not isHolder and (part or isNew and hasRoom and itsSlot) then
        local slotOfAll = math.max(itsSlot or now, now)
        options.maxPending = nil -- it needs no reservation
        local answer = mustWait(slotOfAll, false, {})
        if answer[1] == 3 then
          if not part then
            group.parts[#group.parts + 1] = { name, born, join.expires or 0, id ~= name .. '/0' and id or nil }
            group.count = group.count + 1
          end
          writeWaiting(field, group)
          writeWaiting('part:' .. name, { field = field, born = born })
          settle()
          answer[2], answer[11] = slotOfAll + GRACE_MS, slotOfAll + GRACE_MS - now -- after its leader
        end
        return answer
      end
      becomesHolder = isNew or isHolder
    end
  end
end

local SENT_KEPT_MS = 60000

-- The id waits. From now on, asks under the same key join it, or take its slot.
local function keepGroup()
  if join.kind == 'digest' and group and not isHolder then -- that digest is full, or its leader has not come
    local full = 'full:' .. group.name
    while readWaiting(full) do full = full .. '+' end
    writeWaiting(full, group)
    writeWaiting('holder:' .. group.name, { field = full, born = group.born })
    for _, part in ipairs(group.parts) do writeWaiting('part:' .. part[1], { field = full, born = part[2] }) end
  end
  if not isHolder then
    group = { count = 1, own = 1, expires = join.expires, parts = {}, sent = group and join.kind == 'latest' and group.sent or nil }
  end
  group.name, group.born, group.entry, group.at = name, born, id, join.at
  writeWaiting(field, group)
  writeWaiting((join.kind == 'digest' and 'holder:' or 'part:') .. name, { field = field, born = born })
end

-- The digest goes now. Its parts end with it, but for those that expire before.
local function close(at)
  counted = { count = group.count, own = group.own, born = born }
  for _, part in ipairs(group.parts) do
    dropWaiting('part:' .. part[1])
    if part[3] > 0 and part[3] <= at then
      counted.count = counted.count - 1
    else
      writeEnd(part[1], part[2], 'merged', name)
    end
  end
  dropWaiting(field)
  dropWaiting('holder:' .. name)
  if counted.count > 1 or counted.own == 0 then writeWaiting('holder:' .. name, counted) end
end

-- Notes what was decided. Adds to the answer what a digest is made of that goes now.
function noteDecision(answer)
  local kind, at = answer[1], answer[2]
  if kind == 3 and becomesHolder then
    keepGroup()
  elseif kind == 1 and isHolder and join.kind == 'digest' then
    close(at)
  elseif kind == 1 and join and join.kind == 'latest' then -- an older one that is tried again must not be sent after it
    local newest = { name = name, born = born, entry = '', at = join.at, sent = { name, join.at } }
    dropWaiting('part:' .. name)
    writeWaiting(field, newest, NEWEST_KEPT_MS)
  elseif kind == 4 and options.untilAwake and quiet and awake(now, 0) > now then
    writeWaiting('part:' .. name, { field = '', born = born }, awake(now, 0) - now + ENDED_KEPT_MS)
  elseif kind > 3 and options.claim and not (quiet and not options.maxQuiet and awake(now, 0) > now) then
    writeWaiting('end:' .. name, { how = 'sent', born = born }, SENT_KEPT_MS)
  end
  settle()
  if counted then answer[12], answer[13] = counted.count, counted.own end
  return answer
end
