-- Decides whether notifications that wait can still be canceled, all in one step with the admissions of this recipient.
--
-- KEYS[1] what waits (waiting.lua); KEYS[2] the sent slots of the overall scope; one hash tag
-- ARGV[1] JSON, for each notification {its name, how long to remember it (ms), its ids among the sent ...}
--
-- Answers for each {canceled, name, name}: 1, or 0 if it is too late; then the names that end with it, whose jobs may be woken. Its
-- own name is not among them if a digest that it was a part of is still sent for others.

-- include ../../redis/clock.lua

local now = clockNow()
local waitingKey = KEYS[1]

-- include waiting.lua

-- Takes one notification out of the digest of this holder. The digest ends with its last one. nil if it is sent already, or has
-- ended.
local function takeOut(holder, isOwn, keepMs)
  local pointer = readWaiting('holder:' .. holder)
  local group = pointer and pointer.field and readWaiting(pointer.field)
  if not group or group.name ~= holder then return nil end
  group.count = group.count - 1
  if isOwn then group.own = 0 end
  if group.count > 0 then
    writeWaiting(pointer.field, group, group.kept - now)
    return { 1 }
  end
  dropWaiting(pointer.field)
  writeEnd(holder, 'canceled', nil, keepMs)
  return { 1, holder }
end

local function cancel(name, keepMs, sent)
  local ended = readWaiting('end:' .. name)
  if ended and ended.how == 'merged' then
    local answer = takeOut(ended.by, false, keepMs)
    if not answer then return { 0 } end
    dropWaiting('end:' .. name)
    writeEnd(name, 'canceled', ended.by, keepMs)
    return answer
  end
  if ended then return ended.how == 'canceled' and { 1, name } or { 0 } end
  local holder = readWaiting('holder:' .. name)
  local digest = holder and (holder.field and readWaiting(holder.field) or holder)
  if digest and digest.own == 0 then return { 1 } end -- it was canceled before, and its slot is for the others of its digest
  for _, member in ipairs(sent) do
    if redis.call('ZSCORE', KEYS[2], member) then return { 0 } end
  end
  if holder and holder.field then return takeOut(name, true, keepMs) or { 0 } end
  if holder and holder.count > 1 then return { 0 } end -- it was admitted and is tried again; the others in it have no slot of their own
  writeEnd(name, 'canceled', nil, keepMs)
  return { 1, name }
end

local answers = {}
for index, request in ipairs(cjson.decode(ARGV[1])) do
  local sent = {}
  for position = 3, #request do sent[#sent + 1] = request[position] end
  answers[index] = cancel(request[1], request[2], sent)
end
return answers
