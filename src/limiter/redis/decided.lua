-- Included by admit.lua after join.lua. Needs what those give. Sets `noteDecision(answer)`: notes what was decided, and adds to the answer
-- what a digest is made of that goes now.

local SENT_KEPT_MS = 60000

-- It waits, and from now on what comes under its key joins it, or takes its slot.
local function keepGroup(at)
  local kept = at - now + ENDED_KEPT_MS
  if join.kind == 'digest' and group and not isHolder then -- that one takes no more
    writeWaiting('full:' .. group.name, group, group.kept - now)
    writeWaiting('holder:' .. group.name, { field = 'full:' .. group.name }, group.kept - now)
  end
  if not isHolder then group = { count = 1, own = 1, expires = join.expires } end
  group.name, group.entry, group.at = name, id, join.at
  writeWaiting(field, group, kept)
  if join.kind == 'digest' then writeWaiting('holder:' .. name, { field = field }, kept) end
end

function noteDecision(answer)
  local kind, at = answer[1], answer[2]
  if kind == 3 and becomesHolder then
    keepGroup(at)
  elseif kind == 1 and isHolder and join.kind == 'digest' then
    counted = { count = group.count, own = group.own }
    dropWaiting(field)
    writeWaiting('holder:' .. name, counted, ENDED_KEPT_MS)
  elseif kind == 1 and join and join.kind == 'latest' then -- an older one that is tried again must not go after it
    writeWaiting(field, { name = name, entry = '', at = join.at }, ENDED_KEPT_MS)
  elseif kind > 3 and options.claim and not (quiet and not options.maxQuiet and awake(now, 0) > now) then
    writeWaiting('end:' .. name, { how = 'sent' }, SENT_KEPT_MS)
  end
  if counted then answer[12], answer[13] = counted.count, counted.own end
  return answer
end
