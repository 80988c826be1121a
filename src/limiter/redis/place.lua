-- Included by admit.lua after fit.lua. Needs `scopes`, `hold`, `now`, `due` (the id's slot, or the admission that it renews;
-- nil for a newcomer), `isHeld` (its category holds it back). Gives `admission()` and `waiting()`: its place.

local first, category = scopes[1], scopes[2]

local function later(a, b)
  return b and b.at > a.at and b or a
end

-- Behind the overall line, and behind those of its category.
local function tails(heldToo)
  return tail(first), category and tail(category, heldToo)
end

-- Beside those that wait, how many came late one after the other is kept under this name. The score is the negative of it, so that
-- it comes before all others.
local MISSED = '  missed'

-- Whether anybody else waits in a set.
local function isAwaited(set)
  local last = stored(set, 1)
  return last and last >= now - NO_SHOW_MS
end

-- Whether the id comes too late to keep its place. Where several others have come late one after the other, it does not: all would
-- send each other to the tail for ever.
local function comesLate()
  if not due or now <= due + hold then return false end
  local set = isHeld and category.held or first.reserved
  local missed = isAwaited(set) and tonumber(redis.call('ZSCORE', set.key, MISSED) or nil)
  return not missed or -missed < MOST_MISSED
end
local isLate = comesLate()

-- The first instant after what was sent and after those before it that may still come on time, each so late.
local function ownPlace(among, byMs)
  local from = math.max(now, due)
  for _, scope in ipairs(among) do
    near(scope, slotsIn(scope.reserved, text(now - hold), beyond(due), byMs), from)
  end
  return firstFit(among, from)
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
local function admission()
  local from, why = math.max(now, due or now), nil
  if not due then
    why = later(tails(true))
  elseif isLate then
    from = now
    if isHeld then why = amongAhead({ category }, hold, tail(first).at) else why = amongAhead(scopes, hold, now) end
  elseif isHeld then
    why = later(tails(false))
    why.at = math.max(why.at, due)
  else
    why = ownPlace(scopes, hold)
  end
  return why and why.at <= from + hold and why.at or nil
end

-- Whom its category holds back for longer than the line would, or behind others that it holds back, waits in it alone: in the
-- line nobody waits for it.
local function asNewcomer()
  local line, own = tails(true)
  if own and (category.queuedHeld > 0 or own.at > line.at) then return own, true end
  return line, false
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
  local byMs, own = 0, ownPlace(scopes, 0)
  if own.at <= now + hold then
    byMs = hold
    own = ownPlace(scopes, hold)
  end
  if category and own.at > ownPlace({ first }, byMs).at + first.gap then return own, true end
  return own, false, true
end

-- The instant that it is reserved at, and the limit that decides; whether in its category alone; and whether those behind it
-- have to be kept behind it.
local function waiting()
  if not due then return asNewcomer() end
  if isLate then
    if not isHeld then
      local hole, lastInLine = amongAhead(scopes, 0, now + hold + 1)
      if hole and lastInLine and hole.at < lastInLine then return hole, false end
    end
    return asNewcomer()
  end
  if isHeld then return heldAgain() end
  return putOff()
end
