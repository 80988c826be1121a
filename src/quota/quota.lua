-- Takes tokens of a quota within every tier at once, and sets instants aside for those for whom there is no room.
--
-- A tier counts in buckets of time. Each of its two sorted sets holds an entry `bucket:count` for every bucket that is
-- not empty (score: the bucket, numbered from the epoch): what was taken, and what is promised to those sent away.
--
-- KEYS[1] the last lease of this client    KEYS[2] the tail: the last promise, `instant tier`
-- then for each tier: the taken, the promised; one hash tag
-- ARGV[1] the number of this client's call, one more with each; '0' only looks
-- ARGV[2] how many tokens of the call before went unused
-- ARGV[3] how many newcomers ask
-- ARGV[4] how many tokens more to lease, where there is plenty
-- ARGV[5] the time in epoch ms, in tests only; '' for that of Redis
-- then for each tier: max, the width of a bucket (ms), its span and its slack (buckets, see quota-tiers.ts)
-- then the instants that were promised to those who come back
--
-- Answers {now, more, {at, tier, at, tier, ...}, {used, ...}}: how many more tokens were leased; for each who asks, those
-- who come back first, the instant set aside and the number of the tier that makes the wait, or 0 and 0 where a token was
-- taken; and how many tokens count in each tier.
--
-- Why it is exact: a token is taken in bucket j only where the taken of the buckets after j - span are fewer than max. One
-- of bucket j - span or before was used before (j - span + 1) * width + lease <= j * width - per: out of every window that
-- reaches into j. The promised are only plans: who comes back is measured by what was taken.

local GRACE_MS = 1000 -- newcomers stand behind a promise that is overdue by up to this
local NO_SHOW_MS = 60000 -- who comes back later than this is a newcomer
local LEASE_KEPT_MS = 60000 -- how long a lease can be given back
local LEASED_PART = 4 -- of the room that nobody waits for, one client leases a quarter at the most

local number, unused, newcomers, extra = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local now = tonumber(ARGV[5])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end

-- include counts.lua

local function bucketOf(tier, at)
  return math.floor(at / tier.width)
end

-- Redis's clock may step back. What it took ahead of now still counts, but for what lies further ahead than a token ever
-- counts: that is of a clock that is gone, as are all promises then.
local tiers, isDamaged = {}, false
for index = 1, (#KEYS - 2) / 2 do
  local arg = 2 + 4 * index
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
  tier.last = tier.bucket -- the newest one
  tier.due = bucketOf(tier, now - GRACE_MS) -- the oldest with promises that are waited for
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
for arg = 6 + 4 * #tiers, #ARGV do promises[#promises + 1] = tonumber(ARGV[arg]) end

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

-- What the call before left unused goes back; all of it where this call is resent, as its first answer never arrived. A
-- call that was overtaken by the next one, after a reconnect, has nobody who waits for it.
local lease = redis.call('GET', KEYS[1])
if lease and number > 0 then
  local numberThen, at, granted = string.match(lease, '^(%d+):(%d+):(%d+)$')
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

-- The tier with the least room, when it holds usedIn(tier); and that room.
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

-- Who comes back stands before all newcomers: only what was taken is in its way. Early, in a bucket that has not begun,
-- it is told the same again. Late, with its room gone, it is a newcomer.
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

-- The plan: what is taken, what is promised, and what is overdue as if it came now.
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

-- The next instant at which less counts in the plan.
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

-- Newcomers take what nobody was promised; nothing while promises lie ahead.
local room = math.floor(tail) <= now and tightest(function(tier) return plannedBy(tier, now) end) or 0
local fresh = math.max(0, math.min(room, #places))
local more = math.max(0, math.min(extra, math.floor((room - fresh) / LEASED_PART)))
for index = 1, fresh do answer(places[index], 0, 0) end
take(fresh + more)
granted = granted + fresh + more

-- The others get the next instants with room in every tier, behind the tail, spread evenly over what is left of the
-- bucket: none past its end, so that each is planned for the bucket in which it comes.
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
  local isBehindTail = at == tail -- which has its own part of the bucket
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
  redis.call('SET', KEYS[1], entry(number, now) .. ':' .. digits(granted), 'PX', LEASE_KEPT_MS)
elseif lease then
  redis.call('DEL', KEYS[1])
end
return { now, more, answers, used }
