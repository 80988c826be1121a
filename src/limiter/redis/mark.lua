-- Included by admit.lua where blocked asks count, after write.lua. Needs all that it gives. Gives `putMark`.

-- Writes the mark of an ask that counts although it waits, and forgets the marks that no limit looks at any more: there are
-- enough newer slots. `own` is what the id holds among the sent, and keeps.
local function putMark(scope, mark, own)
  local set = scope.sent
  local last = math.max(stored(set, 1) or 0, now, own)
  if own > 0 then set.ownAt, set.ahead = nil, nil end
  local counted = newest(set, scope.most)
  prune(set)
  redis.call('ZADD', set.key, text(now), mark)
  if counted then
    for _, entry in ipairs(redis.call('ZRANGEBYSCORE', set.key, '-inf', beyond(counted), 'LIMIT', 0, MOST_LOOKED_AT)) do
      if string.sub(entry, 1, 2) == '  ' then redis.call('ZREM', set.key, entry) end
    end
  end
  redis.call('PEXPIREAT', set.key, text(last + keepOf(set)))
end
