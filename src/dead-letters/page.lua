-- The ids of the dead letters behind those that a walk has seen, oldest first.
--
-- KEYS[1] dead letters: the list `wait`, the newest at its head
-- ARGV[1] at most so many
-- ARGV[2] how the keys of the jobs' hashes begin
-- ARGV[3] so many were seen and left, unless others have taken some of them
-- ARGV[4...] the ids that the walk has seen last, newest first
--
-- Answers how many are seen and left; which of the ids that was told by (counted from 1; 0 for none); and then the ids.
--
-- Why one step: dead letters leave at any place while somebody walks, so a place counted from either end may be another
-- one a moment later. What the walk saw last and is still there tells where to go on. Mostly it is where it was. Else LPOS
-- searches the list, which takes long where the id is not in it: so the hash is looked for first.

local left, found = 0, 0
if ARGV[4] and redis.call('LINDEX', KEYS[1], -ARGV[3]) == ARGV[4] then
  left, found = tonumber(ARGV[3]), 1
else
  for seen = 4, #ARGV do
    local position = redis.call('EXISTS', ARGV[2] .. ARGV[seen]) == 1
      and redis.call('LPOS', KEYS[1], ARGV[seen], 'RANK', -1)
    if position then
      left, found = redis.call('LLEN', KEYS[1]) - position, seen - 3
      break
    end
  end
end
local ids = redis.call('LRANGE', KEYS[1], -(left + ARGV[1]), -(left + 1))
local reply = { left, found }
for index = #ids, 1, -1 do
  reply[#reply + 1] = ids[index]
end
return reply
