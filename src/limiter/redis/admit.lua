-- Asks for a slot that keeps the limits of every scope, all in one step.
--
-- A scope is two sorted sets (score: epoch milliseconds) with limits of their own: what was sent, and what is reserved.
-- The first scope is the one that knows the id; a slot is taken in all of them or in none.
--
-- KEYS[1] the recipient's settings; then for each scope: the slots sent, the slots reserved; one hash tag
-- ARGV[1] the id, as it is written among the reserved
-- ARGV[2] the id, as it is written among the sent
-- ARGV[3] 'admit', 'peek' to write nothing, or 'renew' and 'peek-renew' where an admission of this id went unused and is
--         to be forgotten
-- ARGV[4] the time in epoch ms, in tests only; '' for that of Redis
-- ARGV[5] JSON {maxWait, maxPending, countBlocked}: refuse a longer wait (ms), or one behind so many, without a trace;
--         1 to let asks that wait count as slots; '' for none of them
-- ARGV[6] JSON, for each scope {how long slots are kept (ms), the hold (ms), the gap or 0, max, window (ms) of each rule}
--
-- Answers {kind, at, now, hold, gap, scope, limit, max, window, remaining, reset}: kind is 1 admitted (send at `at`), 2 the same
-- admission again, 3 reserved (come back at `at`), 4 refused by maxWait, 5 by maxPending (`at` is what it would have
-- been). Hold and gap are the least and the greatest of the scopes'. Scope, limit, max and window tell the limit that decides; limit 0 is the gap, -1 the block, -2 none.
-- Remaining and reset (ms) are those of that limit; remaining is -1 for no bound. The most usual answer is told shortly, by
-- `now` alone: admitted at once, and the gap of the first scope decides, nothing else being stored about the recipient.
--
-- Why it is exact: a slot t is taken only where t >= (the max-th newest of all that was sent) + window. So fewer than max
-- others lie within a window of t on either side, and no window that holds t holds more than max, in whatever order
-- slots are taken. Reservations are only plans: what a returning id gets is worked out anew from what was sent.

local id, member, mode = ARGV[1], ARGV[2], ARGV[3]
local now = tonumber(ARGV[4])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local policies = cjson.decode(ARGV[6])
if #KEYS ~= 1 + 2 * #policies then
  return redis.error_reply('ERR expected ' .. #policies .. ' policies to go with ' .. #KEYS .. ' keys')
end

-- Redis writes a number handed to a command with 17 digits, which takes longer than a look-up.
local function text(instant)
  return string.format('%d', instant)
end

-- The score of the oldest of the newest so many; now where there are none.
local function oldestOf(sent, count)
  return count == 0 and now or tonumber(redis.call('ZREVRANGE', sent, count - 1, count - 1, 'WITHSCORES')[2])
end

-- The short way, for the most usual of asks: nothing is stored about the recipient, nobody waits, every limit has room.
-- It counts where the long way looks scores up, which is what takes time in Redis, and does not even count where fewer
-- are kept than the limit allows. Nil where it is not as simple as that; nothing has been written then.
local function takeNow()
  if redis.call('EXISTS', KEYS[1], KEYS[3], KEYS[5] or KEYS[3]) > 0 then return nil end
  local hold, widest, last, deciding, plain = math.huge, 0, now, nil, nil
  for scope, policy in ipairs(policies) do
    local sent, gap = KEYS[2 * scope], policy[3]
    local kept, most = redis.call('ZCARD', sent), 1
    hold, widest = math.min(hold, policy[2]), math.max(widest, gap)
    -- Without a gap, this looks for a slot ahead of now.
    if kept > 0 and redis.call('ZCOUNT', sent, text(now - gap + 1), '+inf') > 0 then return nil end
    if gap > 0 and now + gap > last then
      last, deciding = now + gap, scope == 1 or { scope, 0, 1, gap, 0, gap }
    end
    for index = 4, #policy, 2 do
      local max, window = policy[index], policy[index + 1]
      most = math.max(most, max)
      if kept + 1 >= max or not deciding and not plain then
        local count = kept > 0 and redis.call('ZCOUNT', sent, text(now - window + 1), '+inf') or 0
        if count >= max then return nil end
        local free = (count + 1 == max or not plain) and oldestOf(sent, count) + window
        if count + 1 == max and free > last then
          last, deciding = free, { scope, index / 2 - 1, max, window, 0, free - now }
        end
        plain = plain or { scope, index / 2 - 1, max, window, max - count - 1, free - now }
      end
    end
    policy.full = kept >= most
  end
  if redis.call('ZADD', KEYS[2], 'NX', text(now), member) == 0 then return nil end
  for scope, policy in ipairs(policies) do
    local sent = KEYS[2 * scope]
    if scope > 1 then redis.call('ZADD', sent, text(now), member) end
    if policy.full then redis.call('ZREMRANGEBYSCORE', sent, '-inf', text(now - policy[1] - 1)) end
    redis.call('PEXPIREAT', sent, text(now + policy[1]))
  end
  if deciding == true then return now end
  return { 1, now, now, hold, widest, unpack(deciding or plain or { 1, -2, 0, 0, -1, 0 }) }
end

local taken = mode == 'admit' and takeNow()
if taken then return taken end

-- include scopes.lua

local options = ARGV[5] == '' and {} or cjson.decode(ARGV[5])
local maxWait, renew, peek = options.maxWait, mode == 'renew' or mode == 'peek-renew', mode == 'peek' or mode == 'peek-renew'
local first = scopes[1]

-- The id's score, where it is still kept and no damage: among the sent of the first scope, or among the reserved of any,
-- since what its category holds back is reserved there alone.
local function ownScore(name)
  local found
  for number, scope in ipairs(scopes) do
    local set = scope[name]
    local mayKnow = not found and (number == 1 or name == 'reserved') and scoreAt(set, 0)
    local score = mayKnow and tonumber(redis.call('ZSCORE', set.key, set.entry) or nil)
    if score and score >= now - set.keep and score <= set.lastGood then found = score end
  end
  if not found then return nil end
  for _, scope in ipairs(scopes) do
    scope[name].own = redis.call('ZREVRANK', scope[name].key, scope[name].entry) or math.huge
    scope[name].ownAt = found
  end
  return found
end

local sentAt = ownScore('sent')
local slot = ownScore('reserved')

-- A limit that decides, and the instant that it decides on.
local function because(scope, limit, at)
  return { scope = scope.number, limit = limit.number, max = limit.max, window = limit.window, at = at }
end

local none = { number = -2, max = 0, window = 0 }
local function firstLimit(among)
  for _, scope in ipairs(among) do
    if scope.limits[1] then return scope, scope.limits[1] end
  end
  return first, none
end

-- The first instant at which every limit of these scopes has room, when the max-th newest slot of a limit is
-- nth(scope, max), and nobody is blocked any more; and the limit that decides it: the first one where none asks for a wait.
local function firstInstant(among, nth)
  local scope, limit = firstLimit(among)
  local why = because(scope, limit, now - 1)
  if blockedUntil then why = because(first, { number = -1, max = 0, window = 0 }, blockedUntil) end
  for _, scope in ipairs(among) do
    scope.at = math.max(now, blockedUntil or now)
    for _, limit in ipairs(scope.limits) do
      local slotBefore = nth(scope, limit.max)
      local free = slotBefore and slotBefore + limit.window or now
      scope.at = math.max(scope.at, free)
      if free > why.at and slotBefore then why = because(scope, limit, free) end
    end
  end
  why.at = math.max(now, why.at)
  return why
end

-- What was sent allows it from then on. Notes for each scope how late a reservation may count, see there.
local function earliestInstant(among)
  local why = firstInstant(among, function(scope, k) return newest(scope.sent, k) end)
  for _, scope in ipairs(among) do scope.floor = math.max(scope.at - hold, newest(scope.sent, 1) or 0) end
  return why
end
local earliest = earliestInstant(scopes)

-- How many reservations stand before a newcomer: those that lie ahead, or are overdue by no more than the grace.
local function queued(set)
  if not newest(set, 1) then return 0 end
  local count = redis.call('ZCOUNT', set.key, string.format('%.0f', now - GRACE_MS), '+inf') - set.skipped
  if set.own ~= math.huge and slot >= now - GRACE_MS then count = count - 1 end
  return count
end

-- The first instant behind every reservation. A reservation counts at its slot, so that one which is late, but still on
-- time, puts off nobody else. It counts no earlier than the hold before the earliest instant of the scope, where it would
-- no longer be on time, nor before a slot that was sent. So the newest of both together are the reservations, then what
-- was sent, and the tail is never before `earliest`.
local function tailInstant(among)
  local last = false
  for _, scope in ipairs(among) do
    scope.queued = scope.queued or queued(scope.reserved)
    if scope.queued > 0 then last = math.max(last or 0, newest(scope.reserved, 1), scope.floor) end
  end
  if not last then return earliestInstant(among) end
  local tail = firstInstant(among, function(scope, k)
    if k > scope.queued then return newest(scope.sent, k - scope.queued) end
    return math.max(newest(scope.reserved, k), scope.floor)
  end)
  tail.at = math.max(tail.at, last)
  return tail
end

-- Puts the id into a set; the key expires `keep` after its last entry. Ranks shift with a write, so all that is still to
-- be looked up in a set is looked up before it.
local function put(set, at)
  local last = math.max(stored(set, 1) or 0, at)
  prune(set)
  redis.call('ZADD', set.key, at, set.entry)
  redis.call('PEXPIREAT', set.key, last + set.keep)
end

-- Takes the id, and what is damage, out of a set.
local function drop(set)
  if set.own == math.huge and set.skipped == 0 then return end
  local last = stored(set, 1)
  prune(set)
  if set.own ~= math.huge then redis.call('ZREM', set.key, set.entry) end
  if last then redis.call('PEXPIREAT', set.key, last + set.keep) end
end

local function reply(kind, at, why, remaining, reset)
  return { kind, at, now, hold, gap, why.scope, why.limit, why.max, why.window, remaining, reset }
end

-- The answer of an admission, told with the limit that makes the next ask wait longest once `at` is among the sent, or
-- with the first limit where none does. One that is told again is among them already.
local function admitted(kind, at)
  for _, scope in ipairs(scopes) do
    if kind == 2 then scope.sent.own = math.huge else scope.sent.extra, scope.sent.ahead = at, nil end
  end
  local latest = { at = now }
  for _, scope in ipairs(scopes) do
    for _, limit in ipairs(scope.limits) do
      local slotBefore = newest(scope.sent, limit.max)
      if slotBefore and slotBefore + limit.window > latest.at then latest = because(scope, limit, slotBefore + limit.window) end
    end
  end
  if latest.limit then return reply(kind, at, latest, 0, latest.at - now) end

  local scope, limit = firstLimit(scopes)
  if limit == none then return reply(kind, at, because(scope, limit), -1, 0) end
  local from = now - limit.window
  local count = redis.call('ZCOUNT', scope.sent.key, beyond(from), '+inf') - scope.sent.skipped
  if scope.sent.own ~= math.huge and sentAt > from then count = count - 1 end
  if kind == 1 and at > from then count = count + 1 end
  local reset = count > 0 and newest(scope.sent, count) - from or 0
  return reply(kind, at, because(scope, limit), limit.max - count, reset)
end

local function waitUntil(why, at)
  local kind, waiting = 3, 0
  for _, scope in ipairs(scopes) do waiting = math.max(waiting, scope.queued or 0) end
  if maxWait and at - now > maxWait then
    kind = 4
  elseif options.maxPending and not slot and not sentAt and waiting >= options.maxPending then
    kind = 5
  end
  return reply(kind, at, why, 0, at - now)
end

if sentAt and not renew then return admitted(2, sentAt) end
if slot and slot > now + hold then return waitUntil(earliest, slot) end -- too early: the same slot again

-- What its category held back until now goes behind the first scope's line, as a newcomer would, and behind those of its
-- category whose slots come before its own.
local wasHeld, category = slot and first.reserved.own == math.huge, scopes[2]
local function place()
  if not wasHeld then return tailInstant(scopes) end
  local tail, before = tailInstant({ first }), {}
  for name, value in pairs(category) do before[name] = value end
  before.queued, before.reserved = nil, open(category.reserved.key, NO_SHOW_MS, id)
  before.reserved.skipped = redis.call('ZCOUNT', category.reserved.key, text(slot), '+inf')
  local allowed = tailInstant({ before })
  return allowed.at > tail.at and allowed or tail
end

local function isInLine(entry)
  return redis.call('ZSCORE', first.reserved.key, entry)
end

-- Whether the category holds back one of those with the latest slot: then it holds back whoever comes behind them.
local function hasHeld()
  local latest = stored(category.reserved, 1)
  if not latest or latest < now - GRACE_MS then return false end
  for _, entry in ipairs(redis.call('ZRANGEBYSCORE', category.reserved.key, text(latest), text(latest))) do
    if entry ~= id and not isInLine(entry) then return true end
  end
  return false
end

-- This id has moved on from its slot: the others that its category holds back behind that keep their distance, in their
-- order. Later only.
local function moveOn()
  local entries = redis.call('ZRANGE', category.reserved.key, 0, -1, 'WITHSCORES')
  local instants, held, last, newestSlot = instantsOf(category), {}, 0, 0
  for index = 1, #entries, 2 do
    local entry, at = entries[index], tonumber(entries[index + 1])
    newestSlot = math.max(newestSlot, at)
    if entry == id or isInLine(entry) then
      insert(instants, at)
    elseif at >= slot then
      held[#held + 1] = { entry = entry, at = at }
    end
  end
  for _, each in ipairs(held) do
    local at = math.max(each.at, last)
    for _, limit in ipairs(category.limits) do
      local before = instants[#instants - limit.max + 1]
      if before then at = math.max(at, before + limit.window) end
    end
    if at > each.at then redis.call('ZADD', category.reserved.key, at, each.entry) end
    insert(instants, at)
    last = at
  end
  redis.call('PEXPIREAT', category.reserved.key, math.max(newestSlot, last) + NO_SHOW_MS)
end

-- One whose slot is due goes as soon as what was sent allows, unless that is further off than the hold. Late by up to
-- the hold, a chain of them is as late as the latest, not as all of them together. All others go to the tail.
local due = slot or sentAt
local at = due and math.max((wasHeld and place() or earliest).at, due)
local mayGo = due and at <= math.max(now, due) + hold
local why = earliest
if not mayGo then
  why = place()
  at, mayGo = why.at, why.at <= now + hold
end
if mayGo then
  local answer = admitted(1, at)
  if not peek then
    for _, scope in ipairs(scopes) do
      put(scope.sent, at)
      drop(scope.reserved)
    end
  end
  return answer
end

-- An ask that counts although it has to wait is a slot of its own, now, and waits for itself too.
local mark = string.format('  %s@%.0f', member, now) -- one for an id and an instant: the client may send an ask twice
if options.countBlocked then
  for _, scope in ipairs(scopes) do
    if not redis.call('ZSCORE', scope.sent.key, mark) then scope.sent.extra = now end
  end
  earliestInstant(scopes)
  why = place()
  at = why.at
end
-- Whoever comes behind those that its category holds back is held back too: in line, it would overtake them.
local behindHeld = category and not due and hasHeld()
if behindHeld then
  why = tailInstant({ category })
  at = why.at
end
local answer = waitUntil(why, at)
if peek then return answer end
if answer[1] == 3 then
  -- What its category holds back for longer than the first scope would is reserved in the category alone: in the first
  -- scope nobody waits for it.
  local isHeldBack = behindHeld or #scopes > 1 and at > tailInstant({ first }).at
  for number, scope in ipairs(scopes) do
    drop(scope.sent)
    if number == 1 and isHeldBack then drop(scope.reserved) else put(scope.reserved, at) end
  end
end
if options.countBlocked then
  for _, scope in ipairs(scopes) do
    local last = stored(scope.sent, 1) or 0
    prune(scope.sent)
    redis.call('ZADD', scope.sent.key, now, mark)
    local own = answer[1] ~= 3 and sentAt or 0 -- what a refused id holds stays
    redis.call('PEXPIREAT', scope.sent.key, math.max(last, now, own) + scope.sent.keep)
  end
end
if answer[1] == 3 and wasHeld then moveOn() end
return answer
