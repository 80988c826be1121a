-- Included first. Needs nothing. Gives `clockNow(given)`: the time in epoch ms (`given` in tests), and Redis's own time.

local function clockNow(given)
  local time = redis.call('TIME')
  local real = time[1] * 1000 + math.floor(time[2] / 1000)
  return tonumber(given) or real, real
end
