-- Included by every script that takes an id out of the list of the dead letters.

-- Takes the id out, and answers whether it was there. LREM looks through the list from one end: 5 ms for 100,000 ids. So the
-- newest ids, at the head, are looked through first. Then LREM begins at the tail: most replays and removals take the oldest
-- dead letters.
local function takeOut(list, id)
  local isNew = redis.call('LPOS', list, id, 'MAXLEN', 1000)
  return redis.call('LREM', list, isNew and 1 or -1, id) == 1
end
