-- Included by admit.lua after scopes.lua. Needs all that scopes.lua gives. Gives `because`, `firstLimit`, `earliest(among)`,
-- `later(a, b)`, `tail(scope, heldToo)`, `tails(heldToo)`, `asNewcomer(line, own)`: instants that are found by rank look-ups,
-- each with the limit that decides it.

local first, category = scopes[1], scopes[2]

-- An instant, and the limit that decides it.
local function because(scope, limit, at)
  return { scope = scope.number, limit = limit.number, max = limit.max, window = limit.window, at = at }
end

local BLOCK, NONE = { number = -1, max = 0, window = 0 }, { number = -2, max = 0, window = 0 }
local QUIET = { number = -3, max = 0, window = 0 }
local function firstLimit(among)
  for _, scope in ipairs(among) do
    if scope.limits[1] then return scope, scope.limits[1] end
  end
  return scopes[1], NONE
end

-- The same, or the end of the quiet time that it lies in. `byLimits`: the same without quiet times.
local function afterQuiet(why)
  if not quiet then return why end
  local at, byLimits = awake(why.at, edge), why.at
  if at > why.at then why = because(scopes[1], QUIET, at) end
  why.byLimits = byLimits
  return why
end

-- The first instant, `from` or later, after a block and outside of quiet times, at which every limit of these scopes has room;
-- nth(scope, k) is the k-th newest slot. With it the limit that decides, or the first limit if none makes a wait.
local function firstInstant(among, nth, from)
  local scope, limit = firstLimit(among)
  local why = blockedUntil and because(scopes[1], BLOCK, blockedUntil) or because(scope, limit, now - 1)
  for _, scope in ipairs(among) do
    for _, limit in ipairs(scope.limits) do
      local slotBefore = nth(scope, limit.max)
      if slotBefore and slotBefore + limit.window > why.at then why = because(scope, limit, slotBefore + limit.window) end
    end
  end
  why.at = math.max(from, why.at)
  return afterQuiet(why)
end

-- The first instant that the sent slots allow.
local function nthSent(scope, k)
  return newest(scope.sent, k)
end
local function earliest(among, from)
  return firstInstant(among, nthSent, from or now)
end

-- How many reservations of a set come before a newcomer: those ahead of now, or overdue by at most GRACE_MS.
local function queued(set)
  local last = stored(set, 1)
  if not last or last < now - GRACE_MS then return 0 end
  local count = redis.call('ZCOUNT', set.key, string.format('%.0f', now - GRACE_MS), '+inf')
  if set.ownAt and set.ownAt >= now - GRACE_MS then count = count - 1 end
  return count
end

-- The first instant behind every reservation of the scope. A reservation counts at its slot, but not before the earliest instant
-- of the scope, and not before a sent slot. A held-back slot counts no earlier than the last slot in line. So, from the newest to
-- the oldest: those held back, those in line, the sent ones.
local function tail(scope, heldToo)
  scope.queued = scope.queued or queued(scope.reserved)
  local why, line, held = earliest({ scope }), scope.queued, 0
  if heldToo and scope.held then
    scope.queuedHeld = scope.queuedHeld or queued(scope.held)
    held = scope.queuedHeld
  end
  if line + held == 0 then return why end
  local floor = math.max(why.byLimits or why.at, newest(scope.sent, 1) or 0)
  local lastInLine = line > 0 and math.max(stored(scope.reserved, 1), floor) or floor
  local function nth(_, k)
    if k <= held then return math.max(stored(scope.held, k), lastInLine) end
    if k <= held + line then return math.max(stored(scope.reserved, k - held), floor) end
    return newest(scope.sent, k - held - line)
  end
  local behind = firstInstant({ scope }, nth, now)
  behind.at = math.max(behind.at, nth(scope, 1))
  return afterQuiet(behind)
end

local function later(a, b)
  return b and b.at > a.at and b or a
end

-- The instants behind the overall line and behind the category's line.
local function tails(heldToo)
  return tail(first), category and tail(category, heldToo)
end

-- The slot of a newcomer, and whether it is held back: if its category makes it wait longer than the overall line does, or holds
-- back others already, it is reserved in the category alone, so that no id in the overall line has to wait for it.
-- An urgent id is in its category's line alone.
local function asNewcomer(line, own)
  if isUrgent then return later(line, own), true end
  if own and (category.queuedHeld > 0 or own.at > line.at) then return own, true end
  return line, false
end
