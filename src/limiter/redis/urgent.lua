-- Included by admit.lua after scopes.lua for an ask with ARGV[10]. Needs all that scopes.lua gives. Sets `isUrgent`. Changes the
-- limits of the first scope, `tolerance`, `early` and `gap`.

-- Without the limits of the overall scope that are skipped: the gap has number 0. Sent slots still count there for all others.
local skipped, left, spacing = ARGV[10], {}, nil
for _, limit in ipairs(scopes[1].limits) do
  if not string.find(skipped, limit.number == 0 and 'gap' or 'rules', 1, true) then
    left[#left + 1] = limit
    if limit.number == 0 then spacing = limit.window end
  end
end
if not spacing then
  spacing = math.huge
  for _, limit in ipairs(left) do spacing = math.min(spacing, limit.window) end
end
isUrgent = true
scopes[1].limits, scopes[1].reserved.queued = left, 0 -- it stands behind nobody in the overall line
tolerance = math.min(math.floor(math.min(0.9 * spacing, 2000)), policies[2][2]) -- as in pace.ts
early = earlyOf(tolerance)
gap = math.max(left[1] and left[1].number == 0 and left[1].window or 0, policies[2][3])
