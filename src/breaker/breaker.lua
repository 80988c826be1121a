-- Reads or changes the circuit breaker that all workers share, all in one step, so that exactly one worker gets the trial.
-- KEYS[1] the state as JSON. It expires KEPT_MS after the end of the open time, so no clocks are compared: if KEPT_MS or
--         less is left, the breaker is half open. If the key does not exist, it is closed.
-- KEYS[2] the id of the trial that is under way
-- ARGV    'open', id of the trial that failed or '', state, for how many ms, for a quota these ms again or else 0
--         'claim', id, for how many ms | 'close', id | 'release', id | 'read', ''
--         An early trial is not claimed: its id is 'early', and it can only close the breaker.
-- Answers {state, for how many ms more it is open, trial} after the change; nil for a key that does not exist.
local KEPT_MS = 600000
local state, trial, verb, id = KEYS[1], KEYS[2], ARGV[1], ARGV[2]
local exists = redis.call('EXISTS', state) == 1
local leftMs = redis.call('PTTL', state) - KEPT_MS
local isTrial = redis.call('GET', trial) == id

if verb == 'open' and (isTrial or not exists or tonumber(ARGV[5]) > math.max(0, leftMs)) then
  redis.call('SET', state, ARGV[3], 'PX', ARGV[4] + KEPT_MS)
  redis.call('DEL', trial)
elseif verb == 'claim' and exists and leftMs <= 0 then
  redis.call('SET', trial, id, 'NX', 'PX', ARGV[3])
elseif verb == 'close' and (isTrial or id == 'early') then
  redis.call('DEL', state, trial)
elseif verb == 'release' and isTrial then
  redis.call('DEL', trial)
end
return { redis.call('GET', state), redis.call('PTTL', state) - KEPT_MS, redis.call('GET', trial) }
