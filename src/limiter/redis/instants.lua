-- Included by admit.lua after scopes.lua. Needs all that it gives. Gives `because`, `firstLimit`, `earliest(among)`, `later(a, b)`,
-- `tail(scope, heldToo)`, `tails(heldToo)`, `asNewcomer(line, own)`: instants by rank look-ups, each with the limit that decides it.

local first, category = scopes[1], scopes[2]

-- A limit that decides, and the instant that it decides on.
local function because(scope, limit, at)
  return { scope = scope.number, limit = limit.number, max = limit.max, window = limit.window, at = at }
end

local BLOCK, NONE = { number = -1, max = 0, window = 0 }, { number = -2, max = 0, window = 0 }
local function firstLimit(among)
  for _, scope in ipairs(among) do
    if scope.limits[1] then return scope, scope.limits[1] end
  end
  return scopes[1], NONE
end

-- The first instant at which every limit of these scopes has room, when the max-th newest slot of a limit is
-- nth(scope, max), and nobody is blocked any more; and the limit that decides it: the first one where none asks for a wait.
local function firstInstant(among, nth)
  local scope, limit = firstLimit(among)
  local why = blockedUntil and because(scopes[1], BLOCK, blockedUntil) or because(scope, limit, now - 1)
  for _, scope in ipairs(among) do
    for _, limit in ipairs(scope.limits) do
      local slotBefore = nth(scope, limit.max)
      if slotBefore and slotBefore + limit.window > why.at then why = because(scope, limit, slotBefore + limit.window) end
    end
  end
  why.at = math.max(now, why.at)
  return why
end

-- What was sent allows it from then on.
local function nthSent(scope, k)
  return newest(scope.sent, k)
end
local function earliest(among)
  return firstInstant(among, nthSent)
end

-- How many reservations stand before a newcomer: those that lie ahead, or are overdue by no more than the grace.
local function queued(set)
  local last = stored(set, 1)
  if not last or last < now - GRACE_MS then return 0 end
  local count = redis.call('ZCOUNT', set.key, string.format('%.0f', now - GRACE_MS), '+inf')
  if set.ownAt and set.ownAt >= now - GRACE_MS then count = count - 1 end
  return count
end

-- The first instant behind every reservation of the scope. A reservation counts at its slot, so that one which is late, but
-- still on time, puts off nobody else. It counts no earlier than the hold before the earliest instant of the scope, where it
-- would no longer be on time, nor before a slot that was sent; and what a category holds back no earlier than its last one in
-- line. So the newest of all are those held back, then those in line, then what was sent.
local function tail(scope, heldToo)
  scope.queued = scope.queued or queued(scope.reserved)
  local why, line, held = earliest({ scope }), scope.queued, 0
  if heldToo and scope.held then
    scope.queuedHeld = scope.queuedHeld or queued(scope.held)
    held = scope.queuedHeld
  end
  if line + held == 0 then return why end
  local floor = math.max(why.at - hold, newest(scope.sent, 1) or 0)
  local lastInLine = line > 0 and math.max(stored(scope.reserved, 1), floor) or floor
  local function nth(_, k)
    if k <= held then return math.max(stored(scope.held, k), lastInLine) end
    if k <= held + line then return math.max(stored(scope.reserved, k - held), floor) end
    return newest(scope.sent, k - held - line)
  end
  local behind = firstInstant({ scope }, nth)
  behind.at = math.max(behind.at, nth(scope, 1))
  return behind
end

local function later(a, b)
  return b and b.at > a.at and b or a
end

-- Behind the overall line, and behind those of its category.
local function tails(heldToo)
  return tail(first), category and tail(category, heldToo)
end

-- The place of a newcomer, and whether it is in its category alone. Whom its category holds back for longer than the line would,
-- or behind others that it holds back, waits in it alone: in the line nobody waits for it.
local function asNewcomer(line, own)
  if own and (category.queuedHeld > 0 or own.at > line.at) then return own, true end
  return line, false
end
