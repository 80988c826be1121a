-- Takes or reserves a slot that keeps the limits of every scope, all in one step.
--
-- A scope has limits of its own and two sorted sets of slots (score: epoch milliseconds): the sent slots, and the reserved
-- slots, which are in line. A category has a third set: the slots that it holds back, which are not in the overall line yet. A
-- slot is taken in all scopes or in none. The first scope is the overall one; its sets decide whether an id was admitted
-- before.
--
-- KEYS[1] the recipient's settings; then the sets of sent and reserved slots of the overall scope; then, for a category, the sets of
--         sent, reserved and held-back slots; last what waits (waiting.lua). All keys share one hash tag.
-- ARGV[1] the id, as it is written in the reserved and held-back sets
-- ARGV[2] the id, as it is written in the sent sets
-- ARGV[3] 'admit'; 'latest' for an ask with such a join, which must not take the fast path; 'peek' to write nothing; 'renew' and
--         'peek-renew' also forget an admission of this id that was not used
-- ARGV[4] JSON with these fields, each of which may be absent; '' for none of them:
--         maxWait      refuse a longer wait (ms), and write nothing; the time of a block does not count, except with 0
--         maxPending   refuse a new id if so many wait already, and write nothing
--         countBlocked 1: an ask that must wait counts as a sent slot too
--         lead         an id that comes back is not sent before now + lead (ms)
--         join         the notification waits together with others: {kind: 'latest' or 'digest', key, at: since when, expires,
--                      max: the most notifications in one digest}
--         born, name   when the notification was enqueued first, 0 if absent; its job's id, if ARGV[1] does not begin with that
--         untilAwake   1: if it is refused in a quiet time, it waits for the end of the quiet time
--         first        1: if it must wait, note that it goes first (waiting.lua)
--         unusedAt     for 'renew' and 'peek-renew': forget the admission only if it has this slot
--         behindOverdue 1: it waits behind every reservation that is not forgotten yet, however long that is overdue
--         claim        1: if it is refused it will be sent without a slot, so store that it is too late to cancel it
--         maxQuiet     with quiet hours: refuse a wait with more quiet time than this (ms); maxWait then does not count quiet time
--         expiresIn    refuse a wait that is longer than this, with the time of a block and the quiet time in it (ms)
-- ARGV[5] JSON, for each scope {how long slots are kept (ms), the tolerance (ms), the gap or 0, max, window (ms) of each rule}
-- ARGV[6] 1 to answer what every limit has left; absent or '' to answer what the deciding limit alone has left
-- ARGV[7] the quiet times around now, as 'from until from until' in epoch ms; '' for none; '-' if quiet hours do not hold for this
--         ask. ARGV[7] to ARGV[9] are absent if the ask has none of them.
-- ARGV[8] the quiet hours that are stored for the recipient, from which ARGV[7] was computed; '' for the limiter's own hours
-- ARGV[9] the limits of the overall scope that are skipped: 'gap', 'rules' or both; '' for none
--
-- Answers {kind, at, now, tolerance, gap, scope, limit, max, window, remaining, reset}. Kind: 1 admitted (send at `at`), 2 the
-- same admission again, 3 reserved (come back at `at`), 4 refused by maxWait, 5 refused by maxPending (`at` is the slot that a
-- reservation would have had), 6 the notification ends without being sent (`at` is the slot that it had, or 0). Tolerance: the
-- smallest of the scopes; gap: the largest. Scope, limit, max and window: those of the deciding limit; limit 0 is the gap, -1
-- the block (window: until its end), -2 none, -3 quiet hours. Remaining and reset (ms): those of the deciding limit; remaining
-- is -1 for no bound. For a wait, the deciding limit is its longest cause, and remaining is how many ids are before this one in
-- its line (causeOf). With ARGV[6], {scope, limit, max, window, remaining, reset} of every limit follow. With kind 6, {how, by}
-- follow; for a digest that is sent now, {count, own} (waiting.lua); for a wait whose line can move up (canMoveUp), 1. The most frequent answer is only the number `now`:
-- admitted at once, decided by the gap of the first scope (takeNow). {'quiet', text}: the recipient's stored quiet hours are
-- not those of ARGV[8], so ask again with this text; nothing was written.
--
-- Why it is exact: a slot t is taken only if t >= (the max-th newest sent slot) + window for each limit, and sent slots never
-- move. An id that comes back is sent if the sent slots allow that within the tolerance, whatever is reserved: its worker is
-- ready to send, and the next id only waits a little longer. Otherwise the id goes behind all others.
--
-- The parts of this script, in order: quiet hours; the fast path (take-now.lua); what is stored (scopes.lua); which slot the id
-- has; the search for an instant (instants.lua); what waits together (waiting.lua, join.lua); the decision and its writes.

local id, member, mode = ARGV[1], ARGV[2], ARGV[3]
local waitingKey = KEYS[#KEYS]

-- include ../../redis/clock.lua

local now = clockNow()
local policies = cjson.decode(ARGV[5])
if #KEYS ~= 3 * #policies + 1 then
  return redis.error_reply('ERR expected ' .. #policies .. ' policies to go with ' .. #KEYS .. ' keys')
end

local QUIET_EDGE_MS = 150 -- no slot is reserved this close before a quiet time, since its id may come late
local edge = QUIET_EDGE_MS
local quiet, awake, quietMs, isUrgent, isPlain = nil, nil, nil, false, true
if ARGV[7] then
  -- The quiet times around now, each {from, until}, the earliest first; nil if there are none.
  if ARGV[7] ~= '' and ARGV[7] ~= '-' then
    quiet = {}
    for from, till in string.gmatch(ARGV[7], '(%d+) (%d+)') do quiet[#quiet + 1] = { tonumber(from), tonumber(till) } end
  end

  -- The first instant, `at` or later, that is not quiet. Each quiet time begins `edgeMs` earlier.
  function awake(at, edgeMs)
    for _, window in ipairs(quiet) do
      if at < window[1] - edgeMs then break end
      at = math.max(at, window[2])
    end
    return at
  end

  -- How many milliseconds from `from` until `at` are quiet.
  function quietMs(from, at)
    local ms = 0
    for _, window in ipairs(quiet) do ms = ms + math.max(0, math.min(window[2], at) - math.max(window[1], from)) end
    return ms
  end

  -- Whether takeNow may answer: it is not quiet, no quiet hours are stored, no limit is skipped.
  isPlain = ARGV[8] == '' and ARGV[9] == '' and not (quiet and awake(now, edge) > now)
end

-- include take-now.lua

local everyRule = ARGV[6] == '1'
local taken = mode == 'admit' and not everyRule and isPlain and takeNow()
if taken then return taken end

-- include scopes.lua

if ARGV[7] ~= '-' and (storedQuiet or '') ~= (ARGV[8] or '') then return { 'quiet', storedQuiet or '' } end

-- Removes the skipped limits (the gap has number 0) from the overall scope. The slot is still written there: it counts for
-- other ids.
if ARGV[9] and ARGV[9] ~= '' then
  local function withoutSkipped(limits)
    local left = {}
    for _, limit in ipairs(limits) do
      if not string.find(ARGV[9], limit.number == 0 and 'gap' or 'rules', 1, true) then left[#left + 1] = limit end
    end
    return left
  end
  local left, spacing = withoutSkipped(scopes[1].limits), nil
  if left[1] and left[1].number == 0 then spacing = left[1].window end
  scopes[1].later = scopes[1].later and withoutSkipped(scopes[1].later)
  if not spacing then
    spacing = math.huge
    for _, limit in ipairs(left) do spacing = math.min(spacing, limit.window) end
  end
  isUrgent = true
  scopes[1].limits, scopes[1].reserved.queued = left, 0 -- the id stands behind no other id in the overall line
  tolerance = math.min(math.floor(math.min(0.9 * spacing, 2000)), policies[2][2]) -- as in pace.ts
  early = earlyOf(tolerance)
  gap = math.max(left[1] and left[1].number == 0 and left[1].window or 0, policies[2][3])
end

local options = ARGV[4] == '' and {} or cjson.decode(ARGV[4])
local maxWait, renew, peek = options.maxWait, mode == 'renew' or mode == 'peek-renew', mode == 'peek' or mode == 'peek-renew'

-- The id's score in a set, or nil. keptIn also answers nil if the entry is damage, or older than entries are kept.
local function scoreIn(set)
  return scoreAt(set, 0) and tonumber(redis.call('ZSCORE', set.key, set.entry) or nil)
end
local function keptIn(set)
  local score = scoreIn(set)
  if not score or score > set.lastGood then return nil end
  return (score >= now - set.keep or score >= now - keepOf(set)) and score or nil
end

-- The slots that the id has. The first scope decides, because an earlier ask under this id may have named no category.
local sentAt, inLine, heldBackAt, slot, due, isHeldBack
local function findSlot()
  sentAt, inLine, heldBackAt = keptIn(scopes[1].sent), keptIn(scopes[1].reserved), nil
  scopes[1].sent.ownAt, scopes[1].reserved.ownAt = sentAt, inLine
  if scopes[2] then
    if sentAt then scopes[2].sent.ownAt = scoreIn(scopes[2].sent) end
    if inLine then scopes[2].reserved.ownAt = scoreIn(scopes[2].reserved) end
    heldBackAt = not inLine and keptIn(scopes[2].heldBack) or nil
    scopes[2].heldBack.ownAt = heldBackAt
  end
  slot = inLine or heldBackAt
  due, isHeldBack = slot or sentAt, heldBackAt ~= nil
end
findSlot()
-- The id was admitted anew since: by another worker, which may have sent.
if options.unusedAt and sentAt ~= options.unusedAt then renew = false end

-- include instants.lua

-- How many slots a limit has left now (`set.extra` counts as sent), and how many ms until it has one more.
local function roomOf(scope, limit)
  local set, from = scope.sent, now - limit.window
  local count = redis.call('ZCOUNT', set.key, beyond(from), '+inf') - set.skipped
  if set.ownAt and set.ownAt > from then count = count - 1 end
  if set.extra and set.extra > from then count = count + 1 end
  count = math.min(count, limit.max)
  return limit.max - count, count > 0 and newest(set, count) - from or 0
end

-- Each limit with its `roomOf`, if ARGV[6] is 1; else nothing.
local function everyRoom()
  local parts = {}
  if not everyRule then return parts end
  for _, scope in ipairs(scopes) do
    for _, limit in ipairs(scope.limits) do
      for _, part in ipairs({ scope.number, limit.number, limit.max, limit.window, roomOf(scope, limit) }) do
        parts[#parts + 1] = part
      end
    end
  end
  return parts
end

local function reply(kind, at, scope, limit, remaining, reset, rooms)
  return { kind, at, now, tolerance, gap, scope.number, limit.number, limit.max, limit.window, remaining, reset, unpack(rooms) }
end

-- The answer for an admission. The deciding limit is the one that makes the next ask wait longest once `at` is sent, or the
-- first limit if none does. With kind 2, `at` is among the sent slots already.
local function admitted(kind, at)
  for _, scope in ipairs(scopes) do
    if kind == 2 then scope.sent.ownAt = nil else scope.sent.extra, scope.sent.ahead = at, nil end
  end
  local scope, limit, free = slowest({})
  if limit == NONE then return reply(kind, at, scope, limit, -1, 0, {}) end
  if free > now then return reply(kind, at, scope, limit, 0, free - now, everyRoom()) end
  local remaining, reset = roomOf(scope, limit)
  return reply(kind, at, scope, limit, remaining, reset, everyRoom())
end

-- Whether quiet time (`inQuiet` ms) is why an id waits; false if the wait has another cause and only contains a quiet time.
-- `till`: until when the id would wait without quiet times.
local function waitsForQuiet(inQuiet, till)
  return awake(now, 0) > now or awake(till, edge) > till or inQuiet > till - now
end

-- Whether a wait until `at` is refused, how many ms of quiet time count as its cause, and whether a block does: if it is refused
-- by maxWait, only what counts for maxWait. `till`: until when the wait would last without quiet times.
local function isTooLong(at, till)
  local inQuiet = quiet and quietMs(now, at) or 0
  if inQuiet > (options.maxQuiet or math.huge) and waitsForQuiet(inQuiet, till) then return true, math.huge, true end
  -- With maxWait 0 the id does not wait at all, so a block holds as any limit does.
  local from = maxWait ~= 0 and blockedUntil and math.min(blockedUntil, at) or now
  local counted = at - from - (quiet and quietMs(from, at) or 0)
  if counted > (maxWait or math.huge) then return true, 0, from == now end
  return at - now > (options.expiresIn or math.huge), inQuiet, true
end

local function mustWait(at, inCategory, rooms)
  local kind, pending = 3, 0
  local scope, limit, till, counts = causeOf(at)
  local tooLong, inQuiet, inBlock = isTooLong(at, till)
  if not inBlock then scope, limit = slowest(counts, true) end
  if inQuiet > till - now then scope, limit = first, QUIET end
  for _, each in ipairs(scopes) do
    pending = math.max(pending, queued(each.reserved) + (each.heldBack and queued(each.heldBack) or 0))
  end
  if tooLong then
    kind = 4
  elseif options.maxPending and not due and pending >= options.maxPending then
    kind = 5
  end
  return reply(kind, at, scope, limit, counts[inCategory and category or first], at - now, rooms)
end

-- A write to a set shifts its ranks, so make all look-ups in the set before the write.

-- Removes damage, and entries that are older than entries are kept.
local function prune(set)
  if not scoreAt(set, 0) then return end
  if set.skipped > 0 then redis.call('ZREMRANGEBYSCORE', set.key, beyond(set.lastGood), '+inf') end
  redis.call('ZREMRANGEBYSCORE', set.key, '-inf', beyond(now - keepOf(set)))
end

-- Adds the id to a set; the key expires `keep` ms after its newest entry.
local function put(set, at)
  local last = math.max(stored(set, 1) or 0, at)
  prune(set)
  redis.call('ZADD', set.key, text(at), set.entry)
  redis.call('PEXPIREAT', set.key, text(last + keepOf(set)))
end

-- Removes the id and damage from a set. The expiry changes only if the newest entry does.
local function drop(set)
  if not set or not set.ownAt and set.skipped == 0 then return end
  local wasLast = set.skipped > 0 or set.ownAt >= scoreAt(set, 0)
  local last = wasLast and stored(set, 1)
  if set.skipped > 0 then prune(set) end
  if set.ownAt then redis.call('ZREM', set.key, set.entry) end
  if last and last > 0 then redis.call('PEXPIREAT', set.key, text(last + keepOf(set))) end
  set.scores, set.skipped, set.own, set.ownAt, set.ahead = {}, 0, nil, nil, nil -- ranks have shifted
end

-- For asks that wait together under one key, and ids that end without being sent. Both are rare.
local join, noteDecision = not peek and options.join, nil
if join or options.claim or options.untilAwake or options.first or not peek and redis.call('EXISTS', waitingKey) == 1 then
local name, born = options.name or string.match(id, '^(.*)/%d+$') or id, options.born or 0

-- include waiting.lua

-- include join.lua
end
local function noted(answer)
  return noteDecision and noteDecision(answer) or answer
end

local MOVE_LEAD_MS = 1000 -- no slot is moved up to earlier than this (delivery/lines.ts)

-- Whether the first of the overall line, or of what the category holds back, has a later slot than the sent slots need, by more
-- than two gaps. An overdue one counts as early enough.
local function canMoveUp()
  local from = now + MOVE_LEAD_MS
  local function isLate(set, earliest)
    local at = tonumber(redis.call('ZRANGEBYSCORE', set.key, '-inf', '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2])
    return at and at > earliest + 2 * gap
  end
  local inLine = awakeInstant({ first }, nthSent, from)
  if not isUrgent and ARGV[7] ~= '-' and isLate(first.reserved, inLine) then return true end
  if not category or redis.call('EXISTS', category.reserved.key) == 1 then return false end
  if not isUrgent then inLine = tail(first, false, from) end
  return isLate(category.heldBack, math.max(inLine, awakeInstant({ category }, nthSent, from)))
end

-- The answer of a notification that waits: the last part says whether the line can move up.
local function waits(answer)
  answer = noted(answer)
  if answer[1] == 3 and #answer == 11 and options.born and not peek and canMoveUp() then answer[12] = 1 end
  return answer
end

if sentAt and not renew then return noted(admitted(2, sentAt)) end
if slot and slot > now + early then return waits(mustWait(slot, isHeldBack, everyRoom())) end -- too early: the answer is the same slot again

-- The instant at which the id may be sent, if it is near enough; else nil. An id that its category held back goes behind the
-- overall line, so that no id there has to wait longer.
local at, line, own
if due then
  local from = math.max(now + (options.lead or 0), due)
  edge = 0 -- its slot lies before the edge, so it may still be sent within the edge
  if isHeldBack then
    line, own = tails(false)
    at = behindBoth(line, math.max(own, from))
  else
    at = awakeInstant(scopes, nthSent, from)
  end
  if quiet then at = awake(at, 0) end
  edge = QUIET_EDGE_MS
  if at > from + tolerance then at = nil end
else
  line, own = tails(true)
  at = behindBoth(line, own)
  if at > now + early then at = nil end
end
if at then
  local answer = noted(admitted(1, at))
  if not peek then
    for _, scope in ipairs(scopes) do
      put(scope.sent, at)
      drop(scope.reserved)
      drop(scope.heldBack)
    end
  end
  return answer
end

-- With countBlocked an ask that must wait also counts as a slot that is sent now (a mark), so the mark makes this id wait
-- longer too.
local rooms = everyRoom()
local mark = string.format('  %s@%.0f', member, now) -- one for each id and instant, since the client may resend an ask
if options.countBlocked then
  for _, scope in ipairs(scopes) do
    if not redis.call('ZSCORE', scope.sent.key, mark) then scope.sent.extra = now end
  end
end
-- An id that was held back joins the overall line, if its category allows that no later than one gap behind the line's end.
-- Every other id goes behind all ids that wait.
local place, inCategory
if isHeldBack and not isUrgent then
  line, own = tails(false)
  if own <= line + first.gap then place, inCategory = behindBoth(line, own), false end
end
if not place then
  if due or options.countBlocked then line, own = tails(true) end
  place, inCategory = asNewcomer(line, own)
end
local answer = mustWait(place, inCategory, rooms)
if peek then return answer end
if answer[1] == 3 then
  for _, scope in ipairs(scopes) do
    if inCategory then drop(scope.reserved) else put(scope.reserved, place) end
    if scope.heldBack and inCategory then put(scope.heldBack, place) else drop(scope.heldBack) end
    drop(scope.sent)
  end
end
if options.countBlocked then
  -- Adds a mark, and removes old marks: no limit counts more than the `most` newest sent slots, so an older mark makes no id
  -- wait. `own` is the slot that the id has among the sent ones and keeps, or 0.
  local function putMark(scope, mark, own)
    local set = scope.sent
    local last = math.max(stored(set, 1) or 0, now, own)
    if own > 0 then set.ownAt, set.ahead = nil, nil end
    local counted = newest(set, scope.most)
    prune(set)
    redis.call('ZADD', set.key, text(now), mark)
    if counted then
      for _, entry in ipairs(redis.call('ZRANGEBYSCORE', set.key, '-inf', beyond(counted), 'LIMIT', 0, 100)) do
        if string.sub(entry, 1, 2) == '  ' then redis.call('ZREM', set.key, entry) end
      end
    end
    redis.call('PEXPIREAT', set.key, text(last + keepOf(set)))
  end

  for _, scope in ipairs(scopes) do putMark(scope, mark, answer[1] ~= 3 and sentAt or 0) end
end
return waits(answer)
