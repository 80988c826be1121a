-- Included by every script that needs the time. Gives `clockNow()`: Redis's time in epoch ms.

local function clockNow()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
