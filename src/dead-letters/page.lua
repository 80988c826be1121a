-- The next page of a walk over the dead letters: ids that the walk has not seen, oldest first.
--
-- KEYS[1] dead letters: the list `wait`, the newest at its head
-- ARGV[1] how many ids at most
-- ARGV[2] the beginning of the jobs' hash keys
-- ARGV[3] how many of the dead letters that the walk has seen were still in the list at its last step
-- ARGV[4...] the ids that the walk has seen last, newest first
--
-- Answers how many of the seen dead letters are still in the list; which of the ids in ARGV was used to find that (from 1; 0
-- for none); then the ids of the page.
--
-- Why one step: dead letters are taken away at any place during a walk, so a position changes from one moment to the next. The
-- walk goes on behind the last id that it saw and that still exists. Usually that id is at the expected position. If not, LPOS
-- searches the list, which takes long if the id is not in it; so the script first checks that the job's hash exists.

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
