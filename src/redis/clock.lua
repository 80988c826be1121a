-- Included by every script that needs the time. Gives `clockNow(given)`: the time in epoch ms, and Redis's own time. The first is
-- `given` if that is a number: the `now` option of the limiter and of the quota, for tests. Without it both are Redis's time.

local function clockNow(given)
  local time = redis.call('TIME')
  local real = time[1] * 1000 + math.floor(time[2] / 1000)
  return tonumber(given) or real, real
end
