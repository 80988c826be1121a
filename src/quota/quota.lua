-- Takes tokens of a quota, in every tier at once, and promises an instant to each ask that finds no room.
--
-- A tier counts in buckets of time. It has two sorted sets, of taken and of promised tokens, with an entry `bucket:count` for
-- each bucket that is not empty (score: the bucket's number, counted from the epoch).
--
-- KEYS[1] the last token batch of this client    KEYS[2] the tail: the last promise, `instant tier`
-- then for each tier: its taken tokens, its promised tokens. All keys share one hash tag.
-- ARGV[1] the number of this client's call, which grows by one with each call; with '0' the script only reads
-- ARGV[2] how many tokens of the previous call were not used
-- ARGV[3] how many newcomers ask
-- ARGV[4] how many extra tokens to take for later, if there are plenty
-- then for each tier: its max, the width of a bucket (ms), its span and its slack (in buckets, see Tier in quota.ts)
-- then the promised instants of the asks that come back
--
-- Answers {now, more, {at, tier, at, tier, ...}, {used, ...}}. more: how many extra tokens were taken. at, tier: a pair for
-- each ask, first for the asks that come back: the promised instant and the number of the tier that makes the ask wait, or 0
-- and 0 if a token was taken. used: how many tokens count in each tier.
--
-- Why it is exact: a token is taken in bucket j only if fewer than max were taken in the buckets after j - span. A token of
-- bucket j - span or before was used before (j - span + 1) * width + leaseMs <= j * width - per, so no window that reaches into
-- bucket j contains it. Promises are only plans: an ask that comes back is checked against what was really taken.

local GRACE_MS = 1000 -- an overdue promise keeps its room for so long; then newcomers may take it
local NO_SHOW_MS = 60000 -- an ask that comes back later than this is a newcomer
local BATCH_KEPT_MS = 60000 -- how long unused tokens of a batch can be given back
local BATCH_PART = 4 -- one client takes at most a quarter of the free room for later

local number, unused, newcomers, extra = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])

-- include ../redis/clock.lua

local now = clockNow()

-- Tokens by bucket: the entries `bucket:count` of one sorted set. They are read in ranges, changed in memory, and stored at the
-- end.

-- A number as text. Not by `..` or tostring, because Lua would print only 14 digits.
local function digits(value)
  return string.format('%.0f', value)
end

local function entry(bucket, count)
  return digits(bucket) .. ':' .. digits(count)
end

local function counts(key)
  return { key = key, counts = {}, before = {} }
end

local function load(set, from, to)
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', set.key, digits(from), to and digits(to) or '+inf')) do
    local bucket, count = string.match(member, '^(%d+):(%d+)$')
    set.counts[tonumber(bucket)] = tonumber(count)
  end
end

local function countAt(set, bucket)
  return set.counts[bucket] or 0
end

local function change(set, bucket, by)
  local count = countAt(set, bucket)
  set.before[bucket] = set.before[bucket] or count
  set.counts[bucket] = count + by
end

local function sum(set, from, to)
  local total = 0
  for bucket = from, to do total = total + countAt(set, bucket) end
  return total
end

local function store(set)
  for bucket, before in pairs(set.before) do
    local count = set.counts[bucket]
    if count ~= before and before > 0 then redis.call('ZREM', set.key, entry(bucket, before)) end
    if count ~= before and count > 0 then redis.call('ZADD', set.key, digits(bucket), entry(bucket, count)) end
  end
end

local function bucketOf(tier, at)
  return math.floor(at / tier.width)
end

-- Redis's clock may be set back, so taken tokens may lie ahead of now. They still count, unless they lie more than a span
-- ahead. Such tokens are damage: they are dropped, and all promises too.
local tiers, isDamaged = {}, false
for index = 1, (#KEYS - 2) / 2 do
  local arg = 1 + 4 * index
  local tier = {
    max = tonumber(ARGV[arg]),
    width = tonumber(ARGV[arg + 1]),
    span = tonumber(ARGV[arg + 2]),
    slack = tonumber(ARGV[arg + 3]),
    taken = counts(KEYS[2 * index + 1]),
    promised = counts(KEYS[2 * index + 2]),
  }
  tier.bucket = bucketOf(tier, now)
  tier.first = tier.bucket - tier.span + 1 -- the oldest bucket that counts
  tier.last = tier.bucket -- the newest bucket
  tier.due = bucketOf(tier, now - GRACE_MS) -- the oldest bucket whose promises still keep their room: other asks wait for them
  load(tier.taken, tier.first)
  for bucket in pairs(tier.taken.counts) do
    if bucket > tier.bucket + tier.span then
      isDamaged = true
      tier.taken.counts[bucket] = nil
    else
      tier.last = math.max(tier.last, bucket)
    end
  end
  tiers[index] = tier
end

local promises = {}
for arg = 5 + 4 * #tiers, #ARGV do promises[#promises + 1] = tonumber(ARGV[arg]) end

local tail, tailTier = 0, 0
if not isDamaged then
  local at, tier = string.match(redis.call('GET', KEYS[2]) or '', '^(%S+) (%d+)$')
  if at then tail, tailTier = tonumber(at), tonumber(tier) end
  for _, tier in ipairs(tiers) do
    load(tier.promised, tier.due, tier.bucket)
    load(tier.promised, math.max(tier.bucket + 1, bucketOf(tier, tail) - tier.span - tier.slack + 1))
    for _, at in ipairs(promises) do load(tier.promised, bucketOf(tier, at), bucketOf(tier, at)) end
  end
end

-- Gives back the tokens that the previous call did not use. The first answer to a call that is resent never arrived, so all its
-- tokens go back. A call that arrives after a later one (after a reconnect) is refused: no caller waits for it any more.
local lastCall = redis.call('GET', KEYS[1])
if lastCall and number > 0 then
  local numberThen, at, granted = string.match(lastCall, '^(%d+):(%d+):(%d+)$')
  numberThen, at, granted = tonumber(numberThen), tonumber(at), tonumber(granted)
  if numberThen > number then return redis.error_reply('ERR this call was overtaken by a later one') end
  local back = numberThen == number and granted or numberThen == number - 1 and math.min(unused, granted) or 0
  for _, tier in ipairs(tiers) do
    local bucket = bucketOf(tier, at)
    change(tier.taken, bucket, -math.min(back, countAt(tier.taken, bucket)))
  end
end

for _, tier in ipairs(tiers) do
  tier.used = sum(tier.taken, tier.first, tier.last)
  tier.pending = sum(tier.promised, tier.due, tier.bucket)
end

local function take(count)
  for _, tier in ipairs(tiers) do
    if count > 0 then change(tier.taken, tier.bucket, count) end
    tier.used = tier.used + count
  end
end

-- The smallest room of all tiers, and the number of the tier that has it. usedIn(tier): how many tokens are used in a tier.
local function tightest(usedIn)
  local room, number = math.huge, 0
  for index, tier in ipairs(tiers) do
    if tier.max - usedIn(tier) < room then room, number = tier.max - usedIn(tier), index end
  end
  return room, number
end

local function takenIn(tier)
  return tier.used
end

local answers = {}
local function answer(place, at, tier)
  answers[2 * place - 1], answers[2 * place] = math.floor(at), tier
end

-- An ask that comes back goes before all newcomers: it only needs room beside the taken tokens. If its bucket has not begun, it
-- is promised the same instant again. If it is late and finds no room, it is treated as a newcomer.
local function isPromised(at)
  for _, tier in ipairs(tiers) do
    if countAt(tier.promised, bucketOf(tier, at)) < 1 then return false end
  end
  return true
end

local function hasBegun(at)
  for _, tier in ipairs(tiers) do
    if bucketOf(tier, at) > tier.bucket then return false end
  end
  return true
end

local function claim(at)
  for _, tier in ipairs(tiers) do
    local bucket = bucketOf(tier, at)
    if countAt(tier.promised, bucket) > 0 then
      change(tier.promised, bucket, -1)
      if bucket >= tier.due and bucket <= tier.bucket then tier.pending = tier.pending - 1 end
    end
  end
end

local granted, places = 0, {}
for place, at in ipairs(promises) do
  local room, number = tightest(takenIn)
  if room > 0 and hasBegun(at) and at >= now - NO_SHOW_MS then
    claim(at)
    take(1)
    granted = granted + 1
    answer(place, 0, 0)
  elseif at > now and isPromised(at) then
    answer(place, at, number)
  else
    if at <= now then claim(at) end
    places[#places + 1] = place
  end
end
for index = 1, newcomers do places[#places + 1] = #promises + index end

-- The plan: taken and promised tokens together; an overdue promise counts as if its ask came now.
local function planned(tier, bucket)
  return bucket == tier.bucket and tier.pending or countAt(tier.promised, bucket)
end

local function plannedBy(tier, at)
  local bucket = bucketOf(tier, at)
  local total = sum(tier.taken, bucket - tier.span + 1, math.max(bucket, tier.last))
  for planIn = math.max(tier.bucket, bucket - tier.span - tier.slack + 1), bucket do
    total = total + planned(tier, planIn)
  end
  return total
end

-- The first instant at which one of the tokens that count at `at`, taken or promised, no longer counts.
local function freeAt(tier, at)
  local bucket, free = bucketOf(tier, at), math.huge
  for takenIn = bucket - tier.span + 1, math.max(bucket, tier.last) do
    if countAt(tier.taken, takenIn) > 0 then
      free = (takenIn + tier.span) * tier.width
      break
    end
  end
  for planIn = math.max(tier.bucket, bucket - tier.span - tier.slack + 1), bucket do
    if planned(tier, planIn) > 0 then return math.min(free, (planIn + tier.span + tier.slack) * tier.width) end
  end
  return free
end

-- Newcomers may take tokens that are not promised, but none while a promise lies ahead.
local room = math.floor(tail) <= now and tightest(function(tier) return plannedBy(tier, now) end) or 0
local fresh = math.max(0, math.min(room, #places))
local more = math.max(0, math.min(extra, math.floor((room - fresh) / BATCH_PART)))
for index = 1, fresh do answer(places[index], 0, 0) end
take(fresh + more)
granted = granted + fresh + more

-- The other newcomers are promised the next instants with room in every tier, behind the tail. The instants are spread evenly
-- over the rest of a bucket and never past its end, so that each ask is counted in the bucket in which it comes back.
local isMoved = false
local function promise(from)
  local at = math.max(now, tail)
  repeat
    local before = at
    for index, tier in ipairs(tiers) do
      if plannedBy(tier, at) >= tier.max then at, tailTier = freeAt(tier, at), index end
    end
  until at == before
  local left = tightest(function(tier) return plannedBy(tier, at) end)
  local stop = math.huge
  for _, tier in ipairs(tiers) do stop = math.min(stop, (bucketOf(tier, at) + 1) * tier.width) end
  local isBehindTail = at == tail -- the tail itself already uses a part of the bucket
  local step = (stop - at) / (isBehindTail and left + 1 or left)
  if isBehindTail then at = at + step end
  local count = math.min(left, #places - from + 1)
  for index = 0, count - 1 do
    tail = at + index * step
    answer(places[from + index], tail, tailTier)
  end
  for _, tier in ipairs(tiers) do
    local bucket = bucketOf(tier, at)
    change(tier.promised, bucket, count)
    if bucket == tier.bucket then tier.pending = tier.pending + count end
  end
  isMoved = true
  return from + count
end
local nextPlace = fresh + 1
while nextPlace <= #places do nextPlace = promise(nextPlace) end

local used = {}
for index, tier in ipairs(tiers) do used[index] = tier.used end
if number == 0 then return { now, 0, answers, used } end

for _, tier in ipairs(tiers) do
  if isDamaged then
    redis.call('ZREMRANGEBYSCORE', tier.taken.key, '(' .. digits(tier.bucket + tier.span), '+inf')
    redis.call('DEL', tier.promised.key)
  end
  store(tier.taken)
  store(tier.promised)
  redis.call('ZREMRANGEBYSCORE', tier.taken.key, '-inf', '(' .. digits(tier.first))
  redis.call('ZREMRANGEBYSCORE', tier.promised.key, '-inf', '(' .. digits(tier.due))
  if granted > 0 then redis.call('PEXPIREAT', tier.taken.key, digits((tier.last + tier.span) * tier.width)) end
  if isMoved then
    redis.call('PEXPIREAT', tier.promised.key, digits((bucketOf(tier, tail) + 1) * tier.width + GRACE_MS))
  end
end
if isMoved then
  redis.call('SET', KEYS[2], string.format('%.3f %d', tail, tailTier))
  redis.call('PEXPIREAT', KEYS[2], digits(math.ceil(tail)))
elseif isDamaged then
  redis.call('DEL', KEYS[2])
end
if granted > 0 then
  redis.call('SET', KEYS[1], entry(number, now) .. ':' .. digits(granted), 'PX', BATCH_KEPT_MS)
elseif lastCall then
  redis.call('DEL', KEYS[1])
end
return { now, more, answers, used }
