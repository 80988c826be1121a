-- Included by admit.lua. Needs KEYS, `now`, `policies`, `member`. Gives `takeNow()` and `text(instant)`.
--
-- A fast path for the most frequent ask: no settings are stored, nothing waits, every limit has room. It counts entries instead
-- of looking up scores, because look-ups take most of the time in Redis. If fewer entries are stored than the limit allows, it
-- does not even count. In all other cases it answers nil, and writes nothing.

local call = redis.call -- a local, because a table look-up for each call takes a measurable time here

-- An instant as text. If a number were the argument, Redis would write 17 digits, which takes longer than the look-up of a
-- score.
local function text(instant)
  return string.format('%d', instant)
end

-- The score of the `count`-th newest entry; now if `count` is 0.
local function oldestOf(sent, count)
  return count == 0 and now or tonumber(call('ZREVRANGE', sent, count - 1, count - 1, 'WITHSCORES')[2])
end

local function takeNow()
  local others = KEYS[5] and call('EXISTS', KEYS[1], KEYS[3], KEYS[5], KEYS[6], KEYS[7]) or call('EXISTS', KEYS[1], KEYS[3], KEYS[4])
  if others > 0 then return nil end
  local at = text(now)
  local tolerance, widest, last, deciding, plain = math.huge, 0, now, nil, nil
  for scope = 1, #policies do
    local policy = policies[scope]
    local sent, gap = KEYS[2 * scope], policy[3]
    local kept, most = call('ZCARD', sent), 1
    tolerance, widest = math.min(tolerance, policy[2]), math.max(widest, gap)
    if kept > 0 then
      -- A slot lies within the gap, or ahead of now.
      if call('ZCOUNT', sent, text(now - gap + 1), '+inf') > 0 then return nil end
      -- An earlier ask came with a longer window, for which the sent slots must be kept: see keepOf in scopes.lua.
      if call('PTTL', sent) > policy[1] then return nil end
    end
    if gap > 0 and now + gap > last then
      last, deciding = now + gap, scope == 1 or { scope, 0, 1, gap, 0, gap }
    end
    for index = 4, #policy, 2 do
      local max, window = policy[index], policy[index + 1]
      most = math.max(most, max)
      if kept + 1 >= max or not deciding and not plain then
        local count = kept > 0 and call('ZCOUNT', sent, text(now - window + 1), '+inf') or 0
        if count >= max then return nil end
        local free = (count + 1 == max or not plain) and oldestOf(sent, count) + window
        if count + 1 == max and free > last then
          last, deciding = free, { scope, index / 2 - 1, max, window, 0, free - now }
        end
        plain = plain or { scope, index / 2 - 1, max, window, max - count - 1, free - now }
      end
    end
    policy.full = kept >= most
  end
  if call('ZADD', KEYS[2], 'NX', at, member) == 0 then return nil end
  for scope = 1, #policies do
    local policy, sent = policies[scope], KEYS[2 * scope]
    if scope > 1 then call('ZADD', sent, at, member) end
    if policy.full then call('ZREMRANGEBYSCORE', sent, '-inf', text(now - policy[1] - 1)) end
    call('PEXPIREAT', sent, text(now + policy[1]))
  end
  if deciding == true then return now end
  return { 1, now, now, tolerance, widest, unpack(deciding or plain or { 1, -2, 0, 0, -1, 0 }) }
end
