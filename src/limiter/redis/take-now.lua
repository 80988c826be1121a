-- Included by admit.lua. Needs KEYS, `now`, `realNow`, `policies`, `member`. Gives `takeNow()`.
--
-- The short way, for the most usual of asks: nothing is stored about the recipient, nobody waits, every limit has room.
-- It counts where the long way looks scores up, which is what takes time in Redis, and does not even count where fewer
-- are kept than the limit allows. Nil where it is not as simple as that; nothing has been written then.

local call = redis.call -- looked up once, as each look-up counts here

-- Redis writes a number handed to a command with 17 digits, which takes longer than a look-up.
local function text(instant)
  return string.format('%d', instant)
end

-- The score of the oldest of the newest so many; now where there are none.
local function oldestOf(sent, count)
  return count == 0 and now or tonumber(call('ZREVRANGE', sent, count - 1, count - 1, 'WITHSCORES')[2])
end

local function takeNow()
  local others = KEYS[5] and call('EXISTS', KEYS[1], KEYS[3], KEYS[5], KEYS[6]) or call('EXISTS', KEYS[1], KEYS[3])
  if others > 0 then return nil end
  local at = text(now)
  local hold, widest, last, deciding, plain = math.huge, 0, now, nil, nil
  for scope = 1, #policies do
    local policy = policies[scope]
    local sent, gap = KEYS[2 * scope], policy[3]
    local kept, most = call('ZCARD', sent), 1
    hold, widest = math.min(hold, policy[2]), math.max(widest, gap)
    if kept > 0 then
      -- Without a gap, this looks for a slot ahead of now.
      if call('ZCOUNT', sent, text(now - gap + 1), '+inf') > 0 then return nil end
      -- Somebody has asked under a longer window: what was sent has to be kept for that.
      if call('PTTL', sent) - now + realNow > policy[1] then return nil end
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
  return { 1, now, now, hold, widest, unpack(deciding or plain or { 1, -2, 0, 0, -1, 0 }) }
end
