-- Included by admit.lua after place.lua. Needs `scopes`, `now`, `due`, `hold`. Gives `put`, `drop`, `keepOrder`, `putMark`.
-- Ranks shift with a write, so all that is still to be looked up in a set is looked up before it.

-- Forgets the damage, and what has been kept for long enough.
local function prune(set)
  if not scoreAt(set, 0) then return end
  if set.skipped > 0 then redis.call('ZREMRANGEBYSCORE', set.key, beyond(set.lastGood), '+inf') end
  redis.call('ZREMRANGEBYSCORE', set.key, '0', beyond(now - set.keep))
end

-- Puts the id into a set; the key expires `keep` after its last entry.
local function put(set, at)
  local last = math.max(stored(set, 1) or 0, at)
  prune(set)
  redis.call('ZADD', set.key, text(at), set.entry)
  redis.call('PEXPIREAT', set.key, text(last + set.keep))
end

-- The same among those that wait; and counts one that came late.
local function putWaiting(set, at, cameLate)
  if scoreAt(set, 0) and not isAwaited(set) then redis.call('ZREM', set.key, MISSED) end
  put(set, at)
  if cameLate then redis.call('ZINCRBY', set.key, -1, MISSED) end
end

-- Takes the id, and what is damage, out of a set; and the count of those that came late, where it came in time. The expiry changes
-- with the newest entry alone.
local function drop(set)
  if not set or set.own == math.huge and set.skipped == 0 then return end
  local last, wasLast = stored(set, 1), set.own == 0 or set.skipped > 0
  if set.skipped > 0 then prune(set) end
  if set.own ~= math.huge then redis.call('ZREM', set.key, set.entry, now <= due + hold and MISSED or set.entry) end
  if last and last > 0 and wasLast then redis.call('PEXPIREAT', set.key, text(last + set.keep)) end
end

-- The id has been put off from `due` to this instant, and is written there: those in line behind it that would now come before it are put off as
-- well, in their order. At most MOST_LOOKED_AT are moved.
local function keepOrder(at)
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

-- Writes the mark of an ask that counts although it waits, and forgets the marks that no limit looks at any more: there are
-- enough newer slots. `own` is what the id holds among the sent, and keeps.
local function putMark(scope, mark, own)
  local set = scope.sent
  local last = math.max(stored(set, 1) or 0, now, own)
  if own > 0 then set.own, set.ahead = math.huge, nil end
  local counted = newest(set, scope.most)
  prune(set)
  redis.call('ZADD', set.key, text(now), mark)
  if counted then
    for _, entry in ipairs(redis.call('ZRANGEBYSCORE', set.key, '-inf', beyond(counted), 'LIMIT', 0, MOST_LOOKED_AT)) do
      if string.sub(entry, 1, 2) == '  ' then redis.call('ZREM', set.key, entry) end
    end
  end
  redis.call('PEXPIREAT', set.key, text(last + set.keep))
end
