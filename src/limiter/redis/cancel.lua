-- Decides whether a notification that waits can still be canceled. In one step with the recipient's admissions.
--
-- KEYS[1] what waits (waiting.lua); KEYS[2] the sent slots of the overall scope; KEYS[3...] each set that may contain the
--         notification's reservation. All keys share one hash tag.
-- ARGV[1] the notification's name, ARGV[2] when it was enqueued first; ARGV[3...] its ids as they are written among the sent
--
-- Answers {1 if it is canceled, 2 if only its text is (it is sent for others of its digest), 0 if it is too late, -1 if it ends
-- without being sent (another one is sent in its place); the id that leads its digest from now on, and the slot of that id; ''
-- and 0 if there is none}.

-- include ../../redis/clock.lua

local now = clockNow()
local waitingKey, name, born = KEYS[1], ARGV[1], tonumber(ARGV[2])

-- include waiting.lua

local ended = readOwn('end:')
if ended then return { ended.how == 'canceled' and 1 or ended.how == 'sent' and 0 or -1, '', 0 } end
for index = 3, #ARGV do
  if redis.call('ZSCORE', KEYS[2], ARGV[index]) then return { 0, '', 0 } end
end
local leads = readOwn('holder:')
-- Its digest was admitted before and is tried again: the other notifications in it have no slot of their own.
if leads and leads.count and leads.count > 1 then return { 0, '', 0 } end
local group = leads and leads.field and readGroup(leads.field)
if group and group.own == 0 then return { 2, '', 0 } end -- its text was canceled before; it is sent for the others of its digest
if group and #group.parts == 0 and group.count > 1 then -- the others have ended under a version that knew no parts
  group.count, group.own = group.count - 1, 0
  writeWaiting(leads.field, group)
  return { 2, '', 0 }
end
local entry, slot = leave({ unpack(KEYS, 3) })
writeEnd(who, name, 'canceled')
settle()
return { 1, entry or '', slot or 0 }
