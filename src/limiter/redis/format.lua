-- Included by scripts that read or change what is stored of a recipient. Needs KEYS[1], the recipient's settings.
--
-- Gives `refusalOf(format)`: an error to return where a newer version wrote the state, else nil. Nothing was written before.

local FORMAT = 1 -- as FORMATS in src/domain/format.ts

local function refusalOf(format)
  format = tonumber(format or nil)
  return format and format > FORMAT and redis.error_reply('NEWERFORMAT ' .. format) or nil
end
