-- Included by admit.lua after scopes.lua and take-now.lua. Needs all that scopes.lua gives, `options`, `quiet`, `awake`, `edge`,
-- `isUrgent` and `text`. Gives `first` and `category`; instants that are found by rank look-ups: `afterQuiet(at)`,
-- `firstInstant(among, nth, from)`, `nthSent`, `queued(set, at)`, `tails(withHeldBack)`, `asNewcomer(line, own)`; and the
-- causes of a wait: `NONE`, `QUIET`, `slowest(counts)`, `causeOf(at)`.

local first, category = scopes[1], scopes[2]

-- `at`, or the end of the quiet time in which `at` lies.
local function afterQuiet(at)
  return quiet and awake(at, edge) or at
end

-- The first instant, not before `from` and not within a block, at which every limit of these scopes has room; from the end of a
-- stored policy on, the limits that hold then. nth(scope, k) is the k-th newest slot.
local function firstInstant(among, nth, from)
  local function free(scope, limits, at)
    for _, limit in ipairs(limits) do
      at = math.max(at, (nth(scope, limit.max) or -limit.window) + limit.window)
    end
    return at
  end
  local start = math.max(from, blockedUntil or from)
  local at = start
  for _, scope in ipairs(among) do
    local own = free(scope, scope.limits, start)
    if scope.later and own >= policyUntil then own = free(scope, scope.later, math.max(start, policyUntil)) end
    at = math.max(at, own)
  end
  return at
end

-- As `firstInstant`, and not quiet. If quiet time leads past the end of a stored policy, the limits after it decide.
local function awakeInstant(among, nth, from)
  local at = afterQuiet(firstInstant(among, nth, from))
  if first.later and at >= policyUntil then at = afterQuiet(firstInstant(among, nth, at)) end
  return at
end

local function nthSent(scope, k)
  return newest(scope.sent, k)
end

local standsFrom = now - (options.behindOverdue and NO_SHOW_MS or GRACE_MS)

-- How many reservations of a set come before a newcomer, or before `at`. Reservations count until they are overdue by more than
-- GRACE_MS; for an ask with behindOverdue, until they are forgotten.
local function queued(set, at)
  local last = stored(set, 1)
  if set.queued == 0 or not last or last < standsFrom then return 0 end
  local isAll = not at or last < at
  if isAll and set.queued then return set.queued end
  local count = redis.call('ZCOUNT', set.key, text(standsFrom), isAll and '+inf' or beyond(at))
  if set.ownAt and set.ownAt >= standsFrom and (isAll or set.ownAt < at) then count = count - 1 end
  if isAll then set.queued = count end
  return count
end

-- The first instant behind every reservation of the scope, `from` or later (default: now). A reservation counts at its slot, but not before the earliest
-- instant of the scope, and not before a sent slot. A held-back slot counts no earlier than the last slot in line. So the
-- order, from the newest to the oldest, is: held-back slots, slots in line, sent slots.
local function tail(scope, withHeldBack, from)
  local line, heldBack = queued(scope.reserved), withHeldBack and scope.heldBack and queued(scope.heldBack) or 0
  local floor = firstInstant({ scope }, nthSent, now)
  if line + heldBack == 0 then return awakeInstant({ scope }, nthSent, from or now) end
  floor = math.max(floor, newest(scope.sent, 1) or 0)
  local lastInLine = line > 0 and math.max(stored(scope.reserved, 1), floor) or floor
  local function nth(_, k)
    if k <= heldBack then return math.max(stored(scope.heldBack, k), lastInLine) end
    if k <= heldBack + line then return math.max(stored(scope.reserved, k - heldBack), floor) end
    return newest(scope.sent, k - heldBack - line)
  end
  return awakeInstant({ scope }, nth, math.max(from or now, nth(scope, 1)))
end

-- The instants behind the overall line and behind the category's line; without a category, the first instant twice.
local function tails(withHeldBack)
  local line = tail(first)
  return line, category and tail(category, withHeldBack) or line
end

-- The instant behind both lines. If the category's line leads past the end of a stored policy, the limits after it decide.
local function behindBoth(line, own)
  local at = math.max(line, own)
  if first.later and at >= policyUntil and at > line then at = tail(first, false, at) end
  return at
end

-- The slot of a newcomer, and whether it is held back: reserved in its category alone, so that no id in the overall line has to
-- wait for it. A newcomer is held back if its category makes it wait longer than the overall line does, or already holds back
-- others, or if it is urgent.
local function asNewcomer(line, own)
  if isUrgent then return behindBoth(line, own), true end
  if category and (queued(category.heldBack) > 0 or own > line) then return own, true end
  return line, false
end

local NONE, QUIET = { number = -2, max = 0, window = 0 }, { number = -3, max = 0, window = 0 }

-- The limit that alone would make an id wait longest, behind counts[scope] others in line, and until when the id would wait.
-- The first limit if none would make it wait. `isWait`: from the end of a stored policy on, the limits after it count.
local function slowest(counts, isWait)
  local scope, limit, till = first, NONE, now
  for _, each in ipairs(scopes) do
    local count = counts[each] or 0
    local function longest(limits)
      local its, instant = nil, -math.huge
      for _, one in ipairs(limits) do
        local slotBefore = math.max(newest(each.sent, one.max - count % one.max) or -math.huge, now - one.window)
        local alone = slotBefore + one.window * (1 + math.floor(count / one.max))
        if alone > instant then its, instant = one, alone end
      end
      return its, instant
    end
    local its, instant = longest(each.limits)
    if isWait and each.later and instant >= policyUntil then
      local after, ends = longest(each.later)
      if ends > policyUntil then its, instant = after, ends else instant = policyUntil end
    end
    if its and (instant > till or limit == NONE) then scope, limit, till = each, its, instant end
  end
  return scope, limit, till
end

-- The longest cause of a wait until `at`, besides quiet times: the block, or the slowest limit. Answers the scope and the limit
-- of this cause, until when it alone would make the id wait, and how many ids are before this id in each scope.
local function causeOf(at)
  local counts = {}
  for _, scope in ipairs(scopes) do
    counts[scope] = queued(scope.reserved, at) + (scope.heldBack and queued(scope.heldBack, at) or 0)
  end
  local scope, limit, till = slowest(counts, true)
  if blockedUntil and math.min(blockedUntil, at) >= till then
    scope, limit, till = first, { number = -1, max = 0, window = blockedUntil - now }, math.min(blockedUntil, at)
  end
  return scope, limit, till, counts
end
