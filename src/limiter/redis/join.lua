-- Included by admit.lua after waiting.lua, for an ask with `join`, `claim`, `untilAwake` or `first`, or if the recipient has the hash of
-- waiting.lua. Needs everything that admit.lua has defined above. Sets `noteDecision(answer)`, and may end the script with an
-- answer.
--
-- In this order: answers an id whose notification ends without being sent; makes the ask a part of a digest, or its leader, or
-- gives it the slot of an older notification; defines how the decision is noted.

local function endedReply(how, by, at)
  local answer = reply(6, at, first, NONE, -1, 0, {})
  answer[12], answer[13] = how, by or ''
  settle()
  return answer
end

-- The id's slot ahead is free again.
local function dropReservation()
  for _, scope in ipairs(scopes) do
    drop(scope.reserved)
    drop(scope.heldBack)
  end
  dropWaiting('order:' .. id)
end

local ended, whoseEnd = readOwn('end:')
if ended and ended.how ~= 'sent' then
  dropReservation()
  tell(ended, whoseEnd)
  return endedReply(ended.how, ended.by, slot or 0)
end

local group, field -- what waits under the key of this ask, and the field that contains it
local isHolder, becomesHolder -- whether the id has the slot of `group`; whether it gets that slot if it must wait
local superseded -- an older notification of a `latest`, whose slot this id took
local counted -- what the digest was made of when this id, its leader, was admitted
local sets = { first.reserved.key, category and category.reserved.key, category and category.heldBack.key }
if join then
  -- The slot of another id that waits; nil if that id has no slot, or is a no-show.
  local function slotOf(entry)
    for _, set in ipairs({ first.reserved, category and category.heldBack }) do
      local score = tonumber(redis.call('ZSCORE', set.key, entry) or nil)
      if score and score <= set.lastGood and score >= now - NO_SHOW_MS then return score end
    end
    return nil
  end

  field = join.kind .. ':' .. join.key
  if join.kind == 'latest' then
    group = readGroup(field)
    isHolder = group and group.who == who
    -- The slot is not this notification's: it is left from a canceled job with the same id, which a person removed.
    if slot and group and not isHolder and not readOwn('part:') then
      dropReservation()
      findSlot()
    end
    local isNew = not sentAt and not slot
    becomesHolder = isNew or isHolder
    -- Of two with one `sendAfter`, the one that was enqueued first is the older one.
    local isOlder = group
      and (join.at < group.at or join.at == group.at and born < tonumber(string.match(group.who, '@(%d+)$') or 0))
    if isOlder and not isHolder and (isNew or renew) then
      for _, scope in ipairs(scopes) do drop(scope.sent) end -- the id missed its slot
      dropReservation()
      writeEnd(who, name, 'superseded', group.name)
      return endedReply('superseded', group.name, due or 0)
    end
    if group and not isHolder and isNew and group.entry ~= '' then
      local itsSlot = slotOf(group.entry)
      if itsSlot and itsSlot > now + early and isTooLong(itsSlot, select(3, causeOf(itsSlot))) then
        return mustWait(itsSlot, false, {})
      end
      superseded = group
      if itsSlot then
        moveSlot(sets, group.entry, id)
        findSlot()
      end
    end
  else
    local isNew = not sentAt and not slot
    local place, whose = readOwn('holder:')
    local part = not place and readOwn('part:')
    if place and not place.field then
      counted = place -- the digest was admitted before
    else
      field = (place or part or { field = field }).field
      group = readGroup(field)
      isHolder = group and group.who == whose
      -- The leader became a dead letter, and this is its replay. Redis did not answer the call that was to give back its slot, so the
      -- slot is still there under the id of the earlier job.
      if isHolder and group.entry ~= id then
        moveSlot(sets, group.entry, id)
        group.name, group.entry = name, id
        findSlot()
      end
      local itsSlot = group and slotOf(group.entry)
      -- The leader should have come before its parts, but has not: its job was removed, or its worker died.
      if part and group and math.max(itsSlot or 0, group.led or 0) <= now - GRACE_MS then
        handOn(field, group, sets)
        itsSlot = slotOf(group.entry)
        isHolder = group.who == who
        part = not isHolder
        if isHolder then findSlot() end
      end
      local hasRoom = group and group.count < join.max and (not group.expires or join.expires and join.expires <= group.expires)
      if group and not isHolder and (part or isNew and hasRoom and itsSlot) then
        local slotOfAll = math.max(itsSlot or now, now)
        options.maxPending = nil -- a part needs no reservation
        local answer = mustWait(slotOfAll, false, {})
        if answer[1] == 3 then
          if not part then
            group.parts[#group.parts + 1] = { who, join.expires or 0, id, options.name }
            group.count = group.count + 1
          end
          writeWaiting(field, group)
          writeWaiting('part:' .. who, { field = field, name = name })
          if options.first then writeFirst(group.entry, slotOfAll) end
          settle()
          answer[2], answer[11] = slotOfAll + GRACE_MS, slotOfAll + GRACE_MS - now -- the part comes back after its leader
        end
        return answer
      end
      becomesHolder = isNew or isHolder
    end
  end
end

local SENT_KEPT_MS = 60000

-- The id waits. From now on, asks under the same key join its digest, or take its slot.
local function keepGroup()
  if join.kind == 'digest' and group and not isHolder then -- the digest under this key is full, or its leader has not come
    local full = 'full:' .. group.who .. ' ' .. string.format('%.0f', now)
    writeWaiting(full, group)
    writeWaiting('holder:' .. group.who, { field = full })
    for _, part in ipairs(group.parts) do writeWaiting('part:' .. part[1], { field = full, name = nameOf(part) }) end
  end
  if not isHolder then
    group = { count = 1, own = 1, expires = join.expires, parts = {}, sent = group and join.kind == 'latest' and group.sent or nil }
  end
  group.who, group.name, group.entry, group.at = who, name, id, join.at
  writeWaiting(field, group)
  writeWaiting((join.kind == 'digest' and 'holder:' or 'part:') .. who, { field = field, name = name })
end

-- The digest is sent now. Its parts end with it, except those that expire before `at`.
local function close(at)
  counted = { count = group.count, own = group.own, parts = {} }
  for _, part in ipairs(group.parts) do
    dropWaiting('part:' .. part[1])
    if part[2] > 0 and part[2] <= at then
      counted.count = counted.count - 1
    else
      writeEnd(part[1], nameOf(part), 'merged', name)
      table.insert(counted.parts, part)
    end
  end
  dropWaiting(field)
  dropWaiting('holder:' .. group.who)
  if counted.count > 1 or counted.own == 0 then writeWaiting('holder:' .. who, counted) end
end

-- Notes the decision. For a digest that is sent now, adds to the answer what it is made of.
function noteDecision(answer)
  local kind, at = answer[1], answer[2]
  local order = kind == 3 and due and readWaiting('order:' .. id)
  if kind == 3 and options.first then
    writeFirst(id, at)
  elseif kind == 1 or kind == 3 and not due then
    dropWaiting('order:' .. id)
  elseif order then
    writeWaiting('order:' .. id, order, at - now + 60000) -- as long as its new slot
  end
  -- After an earlier ask was refused, `end:` says that the notification was sent without a slot. But this ask waits after all.
  if kind == 3 and ended then dropWaiting('end:' .. whoseEnd) end
  if superseded and kind < 4 then
    writeEnd(superseded.who, superseded.name, 'superseded', name)
    dropWaiting('part:' .. superseded.who)
  elseif superseded then
    moveSlot(sets, id, superseded.entry)
  end
  if kind == 3 and becomesHolder then
    keepGroup()
  elseif kind == 1 and isHolder and join.kind == 'digest' then
    close(at)
  elseif kind == 1 and join and join.kind == 'latest' then -- an older one that is tried again must not be sent after this one
    dropWaiting('part:' .. who)
    writeWaiting(field, { who = who, name = name, entry = '', at = join.at, sent = { name, join.at, who } }, NEWEST_KEPT_MS)
  elseif kind == 4 and options.untilAwake and quiet and awake(now, 0) > now then
    writeWaiting('part:' .. who, { field = '', name = name }, awake(now, 0) - now + DEAD_KEPT_MS)
  elseif kind > 3 and options.claim and not (quiet and not options.maxQuiet and awake(now, 0) > now) then
    writeWaiting('end:' .. who, { how = 'sent' }, SENT_KEPT_MS)
  end
  settle()
  if counted then answer[12], answer[13] = counted.count, counted.own end
  return answer
end
