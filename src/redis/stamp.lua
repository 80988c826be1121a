-- The stamp by which a process notices that Redis has lost what was stored in it: all of it, its last part, or keys that it evicted.
--
-- KEYS[1] `{pushpacer}:stamp`: a hash.
--           id       made anew with each stamp; `madeAt` is when
--           at       when the stamp was written last: every look writes it
--           lost     why there was a new id: `emptied`, `older` or `evicted`; empty for the first stamp
--           lostFrom, lostTo   for `older`: the stretch of time that is missing
--           run, evicted       the server's run id and its `evicted_keys`, as of the last look
--           counted, countedAt its `evicted_keys` when stamps began to count it, and when that was
-- ARGV    what the caller knows from its last look: id (empty: this is its first look), at, run id, `evicted_keys`;
--         an id for a new stamp; how much older than the caller's `at` the stamp may be, milliseconds
--
-- Instants are epoch milliseconds on Redis's clock. Answers { id, at, run id, evicted_keys, policy, lost, lost at, from, to,
-- evicted, evicted since }. `lost` is empty, or a loss that the caller does not know yet. `evicted` is 0; or, if keys were
-- evicted since the last look of any process, how many keys were evicted since `evicted since`. Texts are empty if INFO does
-- not contain them.
--
-- All in one step: if two processes find no stamp, only one of them makes it, and the other one finds it.

-- include clock.lua

local key = KEYS[1]
local knownId, knownAt, knownRun, knownEvicted = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local newId, toleratedMs = ARGV[5], tonumber(ARGV[6])
local KEPT_MS = 604800000 -- a week after the last look

-- The server may forbid INFO: then only missing data is noticed, and no eviction.
local function info(section, field)
  local text = redis.pcall('INFO', section)
  return type(text) == 'string' and string.match(text, field .. ':([^\r\n]*)') or ''
end

local function text(number)
  return string.format('%.0f', number)
end

local now = clockNow()
local run, policy = info('server', 'run_id'), info('memory', 'maxmemory_policy')
local evicted = tonumber(info('stats', 'evicted_keys')) or 0

local stored = redis.call('HMGET', key,
  'id', 'at', 'madeAt', 'lost', 'lostFrom', 'lostTo', 'run', 'evicted', 'counted', 'countedAt')
local id, at, madeAt = stored[1], tonumber(stored[2] or 0), tonumber(stored[3] or 0)
local why, from, to = stored[4] or '', tonumber(stored[5] or 0), tonumber(stored[6] or 0)
-- Keys that a server evicted before the first look at it are not counted.
local last, counted, countedAt = evicted, evicted, now
if stored[7] == run then last, counted, countedAt = tonumber(stored[8]), tonumber(stored[9]), tonumber(stored[10]) end

local lost = ''
if knownId ~= '' and id ~= knownId then
  -- The stamp is gone, or another process has made a new one. That process noticed the loss (`why`), or it had just begun and
  -- found no stamp.
  lost = id and why or ''
  if lost == '' then
    lost = 'emptied'
    -- A server that evicts keys may have evicted the stamp too.
    if knownRun == run and evicted > knownEvicted then
      lost, last, counted, countedAt = 'evicted', knownEvicted, knownEvicted, knownAt
    end
  end
elseif knownId ~= '' and knownAt - at > toleratedMs then
  lost = 'older'
end

if not id or (lost == 'older' and id == knownId) then
  if lost == 'older' then from, to = at, knownAt end
  id, madeAt, why = newId, now, lost
end
at = math.max(at, now) -- the clock of a server that takes over may be behind, which must not make the stamp look older
redis.call('HSET', key, 'id', id, 'at', text(at), 'madeAt', text(madeAt), 'lost', why,
  'lostFrom', text(from), 'lostTo', text(to),
  'run', run, 'evicted', text(evicted), 'counted', text(counted), 'countedAt', text(countedAt))
redis.call('PEXPIRE', key, KEPT_MS)

local more = evicted > last and evicted - counted or 0
return { id, text(at), run, text(evicted), policy, lost, text(madeAt), text(from), text(to), text(more), text(countedAt) }
