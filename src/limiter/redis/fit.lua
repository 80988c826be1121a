-- Included by admit.lua for an id that comes back. Needs all that instants.lua gives. Gives `slotsIn`, `near`, `fitAt`,
-- `firstFit`: where one more slot fits between others, so that the limits hold for the later ones too.

-- The slots of a set between two bounds, without the id's own, each moved to later by `later` ms; oldest first. At most
-- MOST_LOOKED_AT, and whether there are more.
local function slotsIn(set, from, to, later)
  if not set or not scoreAt(set, 0) or set.lastGood == -math.huge then return {}, false end
  if to == '+inf' and set.skipped > 0 then to = string.format('%.0f', set.lastGood) end
  local entries = redis.call('ZRANGEBYSCORE', set.key, from, to, 'WITHSCORES', 'LIMIT', 0, MOST_LOOKED_AT + 2)
  local slots = {}
  for index = 1, #entries, 2 do
    if entries[index] ~= set.entry then slots[#slots + 1] = tonumber(entries[index + 1]) + later end
  end
  local more = #slots > MOST_LOOKED_AT
  for index = #slots, MOST_LOOKED_AT + 1, -1 do slots[index] = nil end
  return slots, more
end

-- Prepares the scope for firstFit. `others` are instants that count in addition to the sent slots. `scope.near` lists the
-- instants around `from`; older sent slots are looked up by rank. If too many slots were sent around that time, the search
-- begins behind all of them.
local function near(scope, others, from)
  local cut = math.min(from, others[1] or from) - 1
  local list, last = others, newest(scope.sent, 1)
  scope.near, scope.inList, scope.from = list, 0, from
  if not last or last <= cut then return scope end
  local sent, more = slotsIn(scope.sent, beyond(cut), '+inf', 0)
  if scope.sent.extra and scope.sent.extra > cut then sent[#sent + 1] = scope.sent.extra end
  if more then
    scope.from = math.max(from, earliest({ scope }).at)
    return scope
  end
  scope.near, scope.inList = {}, #sent
  for _, at in ipairs(sent) do table.insert(scope.near, at) end
  for _, at in ipairs(others) do table.insert(scope.near, at) end
  table.sort(scope.near)
  return scope
end

-- How many instants of a sorted list are no later than `at`.
local function countUpTo(list, at)
  local low, high = 0, #list
  while low < high do
    local middle = math.floor((low + high + 1) / 2)
    if list[middle] <= at then low = middle else high = middle - 1 end
  end
  return low
end

-- `at` if this limit allows one more slot there, else a later instant; the limit allows none between the two.
local function nextFit(scope, limit, at)
  local list, max, window = scope.near, limit.max, limit.window
  local behind = countUpTo(list, at)
  local ahead = #list - behind
  local function before(k) -- the k-th instant before `at`
    if k <= behind then return list[behind - k + 1] end
    return newest(scope.sent, scope.inList + k - behind)
  end
  local oldest = before(max)
  if oldest and oldest + window > at then return oldest + window end
  -- A window that is full already and has `at` inside.
  for count = math.min(max - 1, ahead), 1, -1 do
    local from = before(max - count)
    if from and list[behind + count] - from < window then return list[behind + count] end
  end
  if ahead >= max and list[behind + max] - at < window then return list[behind + 1] end
  return at
end

-- The first instant that may be added in all these scopes: no window around it then has more slots than its limit allows.
local function fitAt(among, from)
  local at, before = math.max(from, blockedUntil or from), nil
  for _, scope in ipairs(among) do at = math.max(at, scope.from) end
  while at ~= before do
    before = at
    for _, scope in ipairs(among) do
      for _, limit in ipairs(scope.limits) do at = nextFit(scope, limit, at) end
    end
    if quiet then at = awake(at, edge) end
  end
  return at
end

-- The same instant, with the limit that forbids an earlier one.
local function firstFit(among, from)
  local at = fitAt(among, from)
  if at <= (blockedUntil or 0) then return because(scopes[1], BLOCK, at) end
  if quiet and awake(at - 1, edge) > at - 1 then return because(scopes[1], QUIET, at) end
  for _, scope in ipairs(among) do
    for _, limit in ipairs(scope.limits) do
      if nextFit(scope, limit, at - 1) > at - 1 then return because(scope, limit, at) end
    end
  end
  local scope, limit = firstLimit(among)
  return because(scope, limit, at)
end
