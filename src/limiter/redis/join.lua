-- Included by admit.lua after waiting.lua, for an ask with `join` or `claim`, or for a recipient who has the hash of waiting.lua.
-- Needs everything that admit.lua has defined above. Sets `noteDecision(answer)`.
--
-- In this order: answers an id that ends without being sent; adds the ask to a digest, or gives it the slot of an older
-- notification; defines how the decision is noted.

local name = string.match(id, '^(.*)/%d+$') or id -- the asks of one notification are `name/0`, `name/1`, ...

local function endedReply(how, by, at)
  local answer = reply(6, at, first, NONE, -1, 0, {})
  answer[12], answer[13] = how, by or ''
  return answer
end

-- It ends without being sent, so its slot is free again.
local ended = readWaiting('end:' .. name)
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
  -- The slot that another id waits for, or nil if it has none, or is a no-show.
  local function slotOf(entry)
    for _, set in ipairs({ first.reserved, category and category.heldBack }) do
      local score = tonumber(redis.call('ZSCORE', set.key, entry) or nil)
      if score and score <= set.lastGood and score >= now - NO_SHOW_MS then return score end
    end
    return nil
  end

  -- Gives this id the slots of another one.
  local function takeOver(entry)
    for _, scope in ipairs(scopes) do
      for _, set in ipairs({ scope.reserved, scope.heldBack }) do
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
      for _, scope in ipairs(scopes) do drop(scope.sent) end -- it missed its slot, which is free again
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
    local holder = readWaiting('holder:' .. name)
    if holder and not holder.field then
      counted = holder -- it was admitted before
    else
      if holder then field = holder.field end
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
end

local SENT_KEPT_MS = 60000

-- The id waits. From now on, asks under the same key join it, or take its slot.
local function keepGroup(at)
  local kept = at - now + ENDED_KEPT_MS
  if join.kind == 'digest' and group and not isHolder then -- that digest is full
    writeWaiting('full:' .. group.name, group, group.kept - now)
    writeWaiting('holder:' .. group.name, { field = 'full:' .. group.name }, group.kept - now)
  end
  if not isHolder then group = { count = 1, own = 1, expires = join.expires } end
  group.name, group.entry, group.at = name, id, join.at
  writeWaiting(field, group, kept)
  if join.kind == 'digest' then writeWaiting('holder:' .. name, { field = field }, kept) end
end

-- Notes what was decided. Adds to the answer what a digest is made of that goes now.
function noteDecision(answer)
  local kind, at = answer[1], answer[2]
  if kind == 3 and becomesHolder then
    keepGroup(at)
  elseif kind == 1 and isHolder and join.kind == 'digest' then
    counted = { count = group.count, own = group.own }
    dropWaiting(field)
    writeWaiting('holder:' .. name, counted, ENDED_KEPT_MS)
  elseif kind == 1 and join and join.kind == 'latest' then -- an older one that is tried again must not be sent after it
    writeWaiting(field, { name = name, entry = '', at = join.at }, ENDED_KEPT_MS)
  elseif kind > 3 and options.claim and not (quiet and not options.maxQuiet and awake(now, 0) > now) then
    writeWaiting('end:' .. name, { how = 'sent' }, SENT_KEPT_MS)
  end
  if counted then answer[12], answer[13] = counted.count, counted.own end
  return answer
end
