-- Tells the pauses of two providers, and writes nothing.
--
-- KEYS    the two pauses, as in pause.lua
--
-- Answers {now, of the first, of the second}: the time in epoch ms, and for each {trouble, code, since, until, step, probe,
-- lease}, all false where the provider is open.

local time = redis.call('TIME')
local function state(key)
  return redis.call('HMGET', key, 'trouble', 'code', 'since', 'until', 'step', 'probe', 'lease')
end
return { time[1] * 1000 + math.floor(time[2] / 1000), state(KEYS[1]), state(KEYS[2]) }
