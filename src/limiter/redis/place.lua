-- Included by admit.lua for whoever comes back, after fit.lua. Needs all that instants.lua gives, `MISSED`, `isAwaited`, `due` (the
-- id's slot, or the admission that it renews), `isHeld` (its category holds it back). Sets `isLate`, `admission`,
-- `waiting`, `keepOrder`.

-- Whether the id comes too late to keep its place. Where several others have come late one after the other, it does not: all would
-- send each other to the tail for ever.
local function comesLate()
  if not due or now <= due + hold then return false end
  local set = isHeld and category.held or first.reserved
  local missed = isAwaited(set) and tonumber(redis.call('ZSCORE', set.key, MISSED) or nil)
  return not missed or -missed < MOST_MISSED
end
isLate = comesLate()

-- The first instant after what was sent and after those before it that may still come on time, each so late.
local function ownPlace(among, byMs, fit)
  local from = math.max(now, due)
  for _, scope in ipairs(among) do
    near(scope, slotsIn(scope.reserved, text(now - hold), beyond(due), byMs), from)
  end
  return fit(among, from)
end

-- Makes the scope ready with the next reservations, in line and held back, each so late. Gives the last of them that is looked
-- at, and whether there are more.
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

-- The first instant that leaves all that may still come on time where they are, each so late; nil where it lies beyond what is
-- looked at. And the last one in line.
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

-- The instant that it may be admitted to now, or nil.
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

-- It joins the line where its category lets it go no later than a gap behind it. Else it stays before those held back behind it,
-- or goes behind them all where it would come after one of them.
local function heldAgain()
  local line, own = tails(false)
  if own.at <= line.at + first.gap then return later(line, own), false end
  if redis.call('ZCOUNT', category.held.key, beyond(due), text(own.at)) > 0 then own = tail(category, true) end
  return own, true
end

-- It came on time, and what was sent puts it off: it keeps its place before those behind it.
local function putOff()
  local byMs, own = 0, ownPlace(scopes, 0, firstFit)
  if own.at <= now + hold then
    byMs = hold
    own = ownPlace(scopes, hold, firstFit)
  end
  if category and own.at > ownPlace({ first }, byMs, fitAt) + first.gap then return own, true end
  return own, false, true
end

-- The instant that it is reserved at, and the limit that decides; whether in its category alone; and whether those behind it
-- have to be kept behind it.
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

-- The id has been put off from `due` to this instant, and is written there: those in line behind it that would now come before it are put off as
-- well, in their order. At most MOST_LOOKED_AT are moved.
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
      if last > slot then redis.call('ZADD', set.key, text(last), entry) end
      taken[#taken + 1], moved = last, moved + 1
    end
  end
  if moved > 0 then redis.call('PEXPIREAT', set.key, text(math.max(newestSlot, last, at) + set.keep)) end
end
