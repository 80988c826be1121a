-- Moves a reservation to an earlier slot: before those that may be overtaken, which each get the slot of the next one. So the same
-- slots are taken as before, and every limit of the line holds as before. All in one step, in parts of at most ARGV[8] reservations.
--
-- KEYS    as in move.lua, with every category among the scopes; then what waits (waiting.lua); last the notes of who was overtaken
-- ARGV[1] the id; of a part of a digest: the leader is moved
-- ARGV[2] the scope of its category, or 0
-- ARGV[3] the notification's name, ARGV[4] when it was enqueued first, 0 if absent: to find the leader of its digest
-- ARGV[5] no reservation is overtaken more often than this
-- ARGV[6] nor made later by more than this, by all overtakings together (ms)
-- ARGV[7] nor is one whose slot comes sooner than this (ms): its job is about to come
--
-- The notes are a hash: for each reservation '+' if it has overtaken, and is not overtaken itself; '>' while it still does so, part by
-- part; else 'times ms'.
--
-- Answers {1 if there is more to overtake, or one that still does so is before it: call again; 1 if a category has some of those that moved, then entry, slot before and slot
-- now of each one that moved, that of the id last}. An empty list if it has no reservation. Refused with an error if a newer version
-- wrote the state (format.lua).

-- include ../../redis/clock.lua

-- include format.lua

local newer = refusalOf(redis.call('HGET', KEYS[1], 'format'))
if newer then return newer end

local now = clockNow()
local NO_SHOW_MS = 60000 -- an overdue reservation is forgotten after this long
local waitingKey, notesKey = KEYS[#KEYS - 1], KEYS[#KEYS]
local entry, scope, name, born = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local mostTimes, mostMs, leadMs, step = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7]), tonumber(ARGV[8])

-- include waiting.lua

local overall = KEYS[3]
local heldBack = scope > 0 and KEYS[3 * scope] or nil

-- The set that it is in, and its slot.
local function find()
  for _, key in ipairs({ overall, heldBack }) do
    local score = tonumber(redis.call('ZSCORE', key, entry) or nil)
    if score and score >= now - NO_SHOW_MS then return key, score end
  end
  return nil
end

local line, own = find()
if not line then
  local part = readOwn('part:')
  local digest = part and part.field ~= '' and readGroup(part.field)
  if not digest then return {} end
  entry = digest.entry
  line, own = find()
  if not line then return {} end
end

local rank = redis.call('ZRANK', line, entry)
local first = math.max(0, rank - step)
local before = rank > 0 and redis.call('ZRANGE', line, first, rank - 1, 'WITHSCORES') or {}
local entries = {}
for index = 1, #before, 2 do entries[#entries + 1] = before[index] end
local notes = #entries > 0 and redis.call('HMGET', notesKey, unpack(entries)) or {}

-- From the nearest one on, as long as they may be overtaken.
local moves, written, at, index, isBehindMoving = {}, { entry, '+' }, own, #entries, false
while index > 0 do
  local slot, note = tonumber(before[2 * index]), notes[index]
  local times, late = string.match(note or '0 0', '^(%d+) (%d+)$')
  isBehindMoving = note == '>'
  if not times or slot < now + leadMs then break end
  times, late = tonumber(times) + 1, tonumber(late) + at - slot
  if times > mostTimes or late > mostMs then break end
  moves[#moves + 1] = { entries[index], slot, at }
  written[#written + 1], written[#written + 2] = entries[index], string.format('%d %d', times, late)
  at, index = slot, index - 1
end
local isMore = isBehindMoving or index == 0 and first > 0
if isMore then written[2] = '>' end
moves[#moves + 1] = { entry, own, at }

local inCategory = false
local function write(key, entry, slot)
  redis.call('ZADD', key, string.format('%d', slot), entry)
end
for _, move in ipairs(moves) do write(line, move[1], move[3]) end
if line == overall and #moves > 1 then
  local moved = {}
  for _, move in ipairs(moves) do moved[#moved + 1] = move[1] end
  for key = 5, #KEYS - 2, 3 do
    local isTouched = false
    for number, score in ipairs(redis.call('ZMSCORE', KEYS[key], unpack(moved))) do
      if score then
        write(KEYS[key], moved[number], moves[number][3])
        isTouched = true
      end
    end
    if isTouched then
      local last = redis.call('ZREVRANGE', KEYS[key], 0, 0, 'WITHSCORES')[2]
      redis.call('PEXPIREAT', KEYS[key], string.format('%d', last + NO_SHOW_MS))
      inCategory = true
    end
  end
end

-- Removes the notes of those that do not wait any more, whenever they are more than those that wait.
local function prune()
  local sets, waits = { overall }, redis.call('ZCARD', overall)
  for key = 6, #KEYS - 2, 3 do
    sets[#sets + 1] = KEYS[key]
    waits = waits + redis.call('ZCARD', KEYS[key])
  end
  if redis.call('HLEN', notesKey) <= 2 * waits + 32 then return end
  for _, noted in ipairs(redis.call('HKEYS', notesKey)) do
    local isThere = false
    for _, key in ipairs(sets) do isThere = isThere or redis.call('ZSCORE', key, noted) end
    if not isThere then redis.call('HDEL', notesKey, noted) end
  end
end
redis.call('HSET', notesKey, unpack(written))
prune()
local last = redis.call('ZREVRANGE', line, 0, 0, 'WITHSCORES')[2] + NO_SHOW_MS
redis.call('PEXPIREAT', notesKey, string.format('%d', math.max(last, now + redis.call('PTTL', notesKey))))

local answer = { isMore and 1 or 0, inCategory and 1 or 0 }
for _, move in ipairs(moves) do
  for _, part in ipairs(move) do answer[#answer + 1] = part end
end
return answer
