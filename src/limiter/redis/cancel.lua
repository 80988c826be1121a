-- Decides whether a notification that waits can still be canceled, all in one step with the admissions of this recipient.
--
-- KEYS[1] what waits (waiting.lua); KEYS[2] the sent slots of the overall scope; KEYS[3...] each set that may contain its reservation;
--         one hash tag
-- ARGV[1] its name, ARGV[2] when it was enqueued first; ARGV[3...] its ids among the sent
--
-- Answers 1, or 0 if it is too late; then the id that leads its digest from now on and the slot of that, '' and 0 if there is none.

-- include ../../redis/clock.lua

local now = clockNow()
local waitingKey, name, born = KEYS[1], ARGV[1], tonumber(ARGV[2])

-- include waiting.lua

local ended = readOwn('end:')
if ended then return { ended.how == 'canceled' and 1 or 0, '', 0 } end
for index = 3, #ARGV do
  if redis.call('ZSCORE', KEYS[2], ARGV[index]) then return { 0, '', 0 } end
end
local leads = readOwn('holder:')
-- It was admitted and is tried again: the others in it have no slot of their own.
if leads and leads.count and leads.count > 1 then return { 0, '', 0 } end
local group = leads and leads.field and readGroup(leads.field)
if group and group.own == 0 then return { 1, '', 0 } end -- it was canceled before, and goes for the others of its digest
if group and #group.parts == 0 and group.count > 1 then -- the others have ended under a version that knew no parts
  group.count, group.own = group.count - 1, 0
  writeWaiting(leads.field, group)
  return { 1, '', 0 }
end
local entry, slot = leave({ unpack(KEYS, 3) })
writeEnd(who, name, 'canceled')
settle()
return { 1, entry or '', slot or 0 }
