-- Included by admit.lua after waiting.lua. Answers an id that ends without being sent, and gives back its slot. Gives `name` (the
-- notification's), `endedReply`.

local name = string.match(id, '^(.*)/%d+$') or id -- the asks of one notification are `name/0`, `name/1`, ...

local function endedReply(how, by, at)
  local answer = reply(6, at, first, NONE, -1, 0, {})
  answer[12], answer[13] = how, by or ''
  return answer
end

local ended = readWaiting('end:' .. name)
if ended and ended.how ~= 'sent' then
-- include write.lua

  for _, scope in ipairs(scopes) do
    drop(scope.reserved)
    drop(scope.held)
  end
  return endedReply(ended.how, ended.by, slot or 0)
end
