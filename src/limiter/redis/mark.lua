-- Included by admit.lua if blocked asks count, after write.lua. Needs all that write.lua gives. Gives `putMark`.

-- Adds a mark for an ask that waits, and removes marks that no limit looks at any more because enough newer slots exist. `own`
-- is the slot that the id has among the sent ones and keeps, or 0.
local function putMark(scope, mark, own)
  local set = scope.sent
  local last = math.max(stored(set, 1) or 0, now, own)
  if own > 0 then set.ownAt, set.ahead = nil, nil end
  local counted = newest(set, scope.most)
  prune(set)
  redis.call('ZADD', set.key, text(now), mark)
  if counted then
    for _, entry in ipairs(redis.call('ZRANGEBYSCORE', set.key, '-inf', beyond(counted), 'LIMIT', 0, 100)) do
      if string.sub(entry, 1, 2) == '  ' then redis.call('ZREM', set.key, entry) end
    end
  end
  redis.call('PEXPIREAT', set.key, text(last + keepOf(set)))
end
