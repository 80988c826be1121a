-- Included by every script that needs the time. Gives `clockNow(given)`: Redis's time in epoch ms, or `given` if that is a number: the
-- quota's option `now`, for tests.

local function clockNow(given)
  local time = redis.call('TIME')
  return tonumber(given) or time[1] * 1000 + math.floor(time[2] / 1000)
end
