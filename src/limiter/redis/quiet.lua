-- Included by admit.lua for an ask with ARGV[8]. Needs `now`. Sets `quiet`, `awake`, `quietMs`, `isPlain`.

-- The quiet times around now, each {from, until}, in their order; nil if there are none.
if ARGV[8] ~= '' and ARGV[8] ~= '-' then
  quiet = {}
  for from, till in string.gmatch(ARGV[8], '(%d+) (%d+)') do quiet[#quiet + 1] = { tonumber(from), tonumber(till) } end
end

-- The first instant, `at` or later, that is not quiet. Each quiet time counts `edgeMs` longer, at its beginning.
function awake(at, edgeMs)
  for _, window in ipairs(quiet) do
    if at < window[1] - edgeMs then break end
    at = math.max(at, window[2])
  end
  return at
end

-- How many milliseconds from now until `at` are quiet.
function quietMs(at)
  local ms = 0
  for _, window in ipairs(quiet) do ms = ms + math.max(0, math.min(window[2], at) - math.max(window[1], now)) end
  return ms
end

-- Whether takeNow may answer: it is not quiet, no quiet hours are stored, no limit is skipped.
isPlain = ARGV[9] == '' and ARGV[10] == '' and not (quiet and awake(now, edge) > now)
