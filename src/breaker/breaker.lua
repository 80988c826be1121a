-- Reads or changes the circuit breaker of one provider, which all workers share. In one step, so that of all workers
-- exactly one has the trial, and only what is still as the caller saw it is changed.
--
-- KEYS[1] the marker: `open` while nothing is sent, or the id of the trial that is under way. How long it still lives
--         is how long that lasts, so no clocks are compared. Gone: half open, or closed.
-- KEYS[2] the state as JSON, another text after each change. Gone: closed.
-- ARGV[1] what to do; for
-- read    nothing more
-- put     [2] the state as the caller saw it, or ''  [3] the new one  [4] for how many ms; 0: the marker stays as it is
-- claim   [2] the trial's id  [3] for how many ms
-- fail    [2] the trial's id  [3] the new state  [4] for how many ms
-- succeed [2] the trial's id
-- release [2] the trial's id
--
-- Answers {marker, for how many ms more, state} as they are afterwards, nil for what is gone. That tells the caller
-- whether its change was made.

-- So long nobody asked for a trial: nobody sends any more, and whoever comes next may start anew.
local KEPT_MS = 600000

local marker, state = KEYS[1], KEYS[2]
local verbs = {}

local function keep(newState, forMs)
  if tonumber(forMs) > 0 then redis.call('SET', marker, 'open', 'PX', forMs) end
  redis.call('SET', state, newState, 'PX', tonumber(forMs) + KEPT_MS)
end

function verbs.read() end

function verbs.put(seen, newState, forMs)
  if (redis.call('GET', state) or '') == seen then keep(newState, forMs) end
end

function verbs.claim(id, forMs)
  if redis.call('EXISTS', state) == 1 then redis.call('SET', marker, id, 'NX', 'PX', forMs) end
end

function verbs.fail(id, newState, forMs)
  if redis.call('GET', marker) == id then keep(newState, forMs) end
end

function verbs.succeed(id)
  if redis.call('GET', marker) == id then redis.call('DEL', marker, state) end
end

function verbs.release(id)
  if redis.call('GET', marker) == id then redis.call('DEL', marker) end
end

verbs[ARGV[1]](unpack(ARGV, 2))
return { redis.call('GET', marker), redis.call('PTTL', marker), redis.call('GET', state) }
