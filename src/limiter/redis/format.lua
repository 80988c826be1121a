-- Included by scripts that read or change what is stored of a recipient. Needs KEYS[1], the recipient's settings.
--
-- Gives `refusalOf(format)`: an error to return if a newer version wrote the state, else nil. To be called before anything is
-- written.

local FORMAT = 1 -- as FORMATS in src/domain/format.ts

local function refusalOf(format)
  format = tonumber(format or nil)
  return format and format > FORMAT and redis.error_reply('NEWERFORMAT ' .. format) or nil
end
