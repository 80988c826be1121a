-- Refuses a process that lost its lease while it stood still: another process has a newer lease, with a higher number.

local FENCE_KEPT_MS = 86400000

local function isStale(key, fence)
  local known = tonumber(redis.call('GET', key) or '0')
  if tonumber(fence) < known then return true end
  if tonumber(fence) > known then redis.call('SET', key, fence, 'PX', FENCE_KEPT_MS) end
  return false
end
