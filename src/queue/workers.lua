-- The registry of workers. It is one hash, so that one key contains all of it.
--
-- KEYS[1] `{pushpacer}:workers`. The field of a worker is its id, the value `<seen at> <digest of its policy> <facts as JSON>`. The
--         field of a policy is `policy:<digest>`, the value is JSON: workers with the same policy share it.
-- ARGV    'seen', id, digest, facts, policy as JSON or '', 'prune' or ''. A digest of '-': this worker stores no policy.
--         'gone', id
--         'read'
--
-- `seen at` is Redis's clock in epoch milliseconds. The hash itself expires a day after the last worker was seen.
-- Answers: 'seen': 1, or 0 if the policy is not stored and has to be sent too; 'gone': how many are removed, 0 or 1;
-- 'read': { now, field, value, field, value, … }.

-- include ../redis/clock.lua

local KEPT_MS = 3600000
local EXPIRES_MS = 86400000
-- With more fields than this (workers that end and start again and again), a worker is kept for a minute only.
local MOST_FIELDS = 200
local KEPT_OF_MANY_MS = 60000

local key, verb, id = KEYS[1], ARGV[1], ARGV[2]
local now = clockNow()

-- Removes workers that were not seen for long, and policies that no worker has.
local function prune()
  local all = redis.call('HGETALL', key)
  local keptMs = #all / 2 > MOST_FIELDS and KEPT_OF_MANY_MS or KEPT_MS
  local used, removed = {}, {}
  for at = 1, #all, 2 do
    local seenAt, digest = string.match(all[at + 1], '^(%d+) (%S+) ')
    if string.sub(all[at], 1, 7) ~= 'policy:' then
      if seenAt and now - tonumber(seenAt) < keptMs then
        used['policy:' .. digest] = true
      else
        removed[#removed + 1] = all[at]
      end
    end
  end
  for at = 1, #all, 2 do
    if string.sub(all[at], 1, 7) == 'policy:' and not used[all[at]] then removed[#removed + 1] = all[at] end
  end
  for _, field in ipairs(removed) do redis.call('HDEL', key, field) end
end

if verb == 'seen' then
  local digest, facts, policy = ARGV[3], ARGV[4], ARGV[5]
  redis.call('HSET', key, id, string.format('%.0f', now) .. ' ' .. digest .. ' ' .. facts)
  if policy ~= '' then redis.call('HSET', key, 'policy:' .. digest, policy) end
  redis.call('PEXPIRE', key, EXPIRES_MS)
  if ARGV[6] == 'prune' then prune() end
  return digest == '-' and 1 or redis.call('HEXISTS', key, 'policy:' .. digest)
elseif verb == 'gone' then
  local removed = redis.call('HDEL', key, id)
  prune()
  return removed
end
local answer = redis.call('HGETALL', key)
table.insert(answer, 1, string.format('%.0f', now))
return answer
