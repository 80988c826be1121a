-- Included by admit.lua for an id that comes back, after fit.lua. Needs all that instants.lua gives, `MISSED`, `isAwaited`, `due`
-- (the id's slot, or the admission that it renews), `isHeld` (its category holds it back). Sets `isLate`, `admission`,
-- `waiting`, `keepOrder`.

-- Whether the id is so late that it loses its place. It keeps it if several others in a row were late too: otherwise each late id
-- would be put behind all others, again and again, and nobody would ever be sent.
local function comesLate()
  if not due or now <= due + hold then return false end
  local set = isHeld and category.held or first.reserved
  local missed = isAwaited(set) and tonumber(redis.call('ZSCORE', set.key, MISSED) or nil)
  return not missed or -missed < MOST_MISSED
end
isLate = comesLate()

-- The first instant behind the sent slots and behind the earlier reservations that may still come on time, if each of them comes
-- `byMs` after its slot.
local function ownPlace(among, byMs, fit)
  local from = math.max(now, due)
  for _, scope in ipairs(among) do
    near(scope, slotsIn(scope.reserved, text(now - hold), beyond(due), byMs), from)
  end
  return fit(among, from)
end

-- Prepares the scope for firstFit with the next reservations, in line and held back, each `byMs` after its slot. Gives the last
-- one that is looked at, and whether there are more.
local function nearAhead(scope, byMs, from)
  local ahead, more = slotsIn(scope.reserved, text(now - hold), '+inf', byMs)
  local held, moreHeld = slotsIn(scope.held, text(now - hold), '+inf', byMs)
  if #held > 0 then
    for _, at in ipairs(held) do ahead[#ahead + 1] = at end
    table.sort(ahead)
  end
  more = more or moreHeld or #ahead > MOST_LOOKED_AT
  for index = #ahead, MOST_LOOKED_AT + 1, -1 do ahead[index] = nil end
  local last = ahead[#ahead]
  near(scope, ahead, from)
  return last, more
end

-- The first instant at which the id changes no slot of those that may still come on time, if each comes `byMs` after its slot;
-- nil if it lies beyond the reservations that are looked at. And the last slot in line.
local function amongAhead(among, byMs, from)
  local ends, lastInLine = {}, nil
  for index, scope in ipairs(among) do
    local last, more = nearAhead(scope, byMs, from)
    ends[index] = more and last or math.huge
    if index == 1 then lastInLine = last end
  end
  local why = firstFit(among, from)
  for _, seenUntil in ipairs(ends) do
    if why.at >= seenUntil then return nil, lastInLine end
  end
  return why, lastInLine
end

-- The instant at which it may be sent, if that is now or within the hold; else nil.
function admission()
  local from, at = now, nil
  if isLate then
    local why
    if isHeld then why = amongAhead({ category }, hold, tail(first).at) else why = amongAhead(scopes, hold, now) end
    at = why and why.at
  elseif isHeld then
    from = math.max(now, due)
    at = math.max(later(tails(false)).at, due)
  else
    from = math.max(now, due)
    at = ownPlace(scopes, hold, fitAt)
  end
  return at and at <= from + hold and at or nil
end

-- For an id that its category held back. It joins the line if its category allows it no later than one gap behind the line's end.
-- Else it stays held back: before those that are held back behind it, or behind all of them if it would come after one of them.
local function heldAgain()
  local line, own = tails(false)
  if isUrgent then
    own = later(line, own)
  elseif own.at <= line.at + first.gap then
    return later(line, own), false
  end
  if redis.call('ZCOUNT', category.held.key, beyond(due), text(own.at)) > 0 then own = tail(category, true) end
  return isUrgent and later(line, own) or own, true
end

-- For an id that came on time but must wait because of a sent slot: it keeps its place before those behind it.
local function putOff()
  if isUrgent then return asNewcomer(tails(true)) end
  local byMs, own = 0, ownPlace(scopes, 0, firstFit)
  if own.at <= now + hold then
    byMs = hold
    own = ownPlace(scopes, hold, firstFit)
  end
  if category and own.at > ownPlace({ first }, byMs, fitAt) + first.gap then return own, true end
  return own, false, true
end

-- Its new slot, and the limit that decides it; whether it is reserved in its category alone; and whether keepOrder must follow.
function waiting()
  if isLate then
    if not isHeld then
      local hole, lastInLine = amongAhead(scopes, 0, now + hold + 1)
      if hole and lastInLine and hole.at < lastInLine then return hole, false end
    end
    return asNewcomer(tails(true))
  end
  if isHeld then return heldAgain() end
  return putOff()
end

-- The id was moved from `due` to `at`. Moves those in line behind it that would now come before it, in their order; at most
-- MOST_LOOKED_AT of them. Only their slots in the overall scope are changed.
function keepOrder(at)
  local set, taken, last = first.reserved, slotsIn(first.reserved, text(now - hold), beyond(due), 0), at
  taken[#taken + 1] = at
  local function nth(_, k)
    if k <= #taken then return taken[#taken - k + 1] end
    return newest(first.sent, k - #taken)
  end
  local behind = redis.call('ZRANGEBYSCORE', set.key, text(due), '+inf', 'WITHSCORES', 'LIMIT', 0, MOST_LOOKED_AT + 1)
  local moved, newestSlot = 0, stored(set, 1) or 0
  for index = 1, #behind, 2 do
    local entry, slot = behind[index], tonumber(behind[index + 1])
    if entry ~= set.entry then
      if slot > last or moved >= MOST_LOOKED_AT then break end
      for _, limit in ipairs(first.limits) do
        local before = nth(first, limit.max)
        if before then last = math.max(last, before + limit.window) end
      end
      if quiet then last = awake(last, edge) end
      if last > slot then redis.call('ZADD', set.key, text(last), entry) end
      taken[#taken + 1], moved = last, moved + 1
    end
  end
  if moved > 0 then redis.call('PEXPIREAT', set.key, text(math.max(newestSlot, last, at) + set.keep)) end
end
