-- 'tell': answers a pass how its notification must end without being sent; a cancel asks it too, so that no other cancel takes it
-- back. 'take back': takes a cancel back.
--
-- KEYS[1] what waits (waiting.lua)
-- ARGV[1] the notification's name, ARGV[2] when it was enqueued first; ARGV[3] 'tell' or 'take back'
--
-- Answers for 'tell': how it ends, and the name of the notification that is sent in its place; '' and '' if it is to be sent, or
-- was sent. Answers for 'take back': 1; or 0 if it is too late, because the answer of 'tell' was given already.

-- include ../../redis/clock.lua

local now = clockNow()
local waitingKey, name, born = KEYS[1], ARGV[1], tonumber(ARGV[2])

-- include waiting.lua

local ended, whose = readOwn('end:')
if ARGV[3] == 'take back' then
  local isCanceled = ended and ended.how == 'canceled'
  if isCanceled and ended.told then return 0 end
  if isCanceled then dropWaiting('end:' .. whose) end
  return 1
end
if not ended or ended.how == 'sent' then return { '', '' } end
tell(ended, whose)
return { ended.how, ended.by or '' }
