-- Included by every script that takes an id out of the list of the dead letters.

-- Takes the id out, and answers whether it was there. LREM looks through the list from one end, which takes 5 ms if it has
-- 100,000 ids before the one that is meant. So first those near the head are looked through, the newest; then all from the tail,
-- where the oldest are and most replays and removals begin.
local function takeOut(list, id)
  local isNew = redis.call('LPOS', list, id, 'MAXLEN', 1000)
  return redis.call('LREM', list, isNew and 1 or -1, id) == 1
end
