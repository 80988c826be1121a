-- Changes the pause of one provider, which all workers share. In one step, so that of all workers exactly one probes, and
-- what it found out ends or renews only the pause that it was sent in.
--
-- KEYS[1] the pause: a hash of trouble, code, since, until, step, probe, lease; not there where the provider is open.
--         Times are epoch ms by Redis's clock. Every change moves `until`, so it is the pause's version as well.
-- ARGV[1] what to do
-- ARGV[2] by when, in epoch ms of Redis's clock, or '': what lay about for longer than its caller waited is not done
-- open    ARGV[3] trouble  [4] code  [5] for how many ms  [6] 1: the longer time wins, whatever the trouble
--         [7] step  [8] ms since it began
-- claim   ARGV[3] the probe's id  [4] for how many ms it is lent
-- settle  ARGV[3] the probe's id, or ''  [4] `until` of the pause that was probed  [5] trouble, or '' where there is none
--         [6] code  [7] for how many ms more  [8] step
-- release ARGV[3] the probe's id
--
-- Answers {now, verdict, trouble, code, since, until, step, probe, lease}, as they are after it. Verdicts: late; of open:
-- opened, extended, kept; of claim: open, paused, taken, claimed; of settle: closed, extended, lost; of release: released.

local RANK = { auth = 3, quota = 2, outage = 1 }
-- A time that is longer by less does not count: the answers of one moment name times that differ by the moment.
local SLACK_MS = 1000
-- The clocks of Redis and of a worker are compared over a network.
local EARLY_MS = 50
-- So that nothing stays for ever where nobody sends any more.
local KEPT_MS = 3600000

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local key, verb, deadline = KEYS[1], ARGV[1], tonumber(ARGV[2])

local function state()
  return redis.call('HMGET', key, 'trouble', 'code', 'since', 'until', 'step', 'probe', 'lease')
end
local trouble, code, since, over, step, probe, lease = unpack(state())
over, step, lease = tonumber(over), tonumber(step), tonumber(lease)

local function whole(number)
  return string.format('%.0f', number)
end

local function keep(newTrouble, newCode, newUntil, newStep)
  redis.call('HSET', key, 'trouble', newTrouble, 'code', newCode, 'until', whole(newUntil), 'step', newStep)
  redis.call('PEXPIREAT', key, whole(math.max(newUntil, now) + KEPT_MS))
end

local function drop()
  redis.call('HDEL', key, 'probe', 'lease')
end

local verbs = {}

function verbs.open(newTrouble, newCode, forMs, mayExtend, newStep, agoMs)
  local newUntil = now + tonumber(forMs)
  if not trouble then
    keep(newTrouble, newCode, newUntil, newStep)
    redis.call('HSET', key, 'since', whole(now - tonumber(agoMs)))
    return 'opened'
  end
  local outranks = RANK[newTrouble] > RANK[trouble]
  if not outranks and not (mayExtend == '1' and newUntil > over + SLACK_MS) then return 'kept' end
  if not outranks and newTrouble ~= trouble then newTrouble, newCode = trouble, code end
  keep(newTrouble, newCode, math.max(newUntil, over + 1), math.max(step, tonumber(newStep)))
  return 'extended'
end

function verbs.claim(id, forMs)
  if not trouble then return 'open' end
  if now + EARLY_MS < over then return 'paused' end
  if probe and probe ~= id and lease > now then return 'taken' end
  redis.call('HSET', key, 'probe', id, 'lease', whole(now + tonumber(forMs)))
  return 'claimed'
end

function verbs.settle(id, ofUntil, newTrouble, newCode, forMs, newStep)
  local isOwn = trouble and probe == id
  local isNobodys = trouble and not probe and over == tonumber(ofUntil)
  if not isOwn and not isNobodys then return 'lost' end
  if newTrouble == '' then
    redis.call('DEL', key)
    return 'closed'
  end
  drop()
  -- Who cannot be reached has said nothing about credentials or quotas.
  if newTrouble == 'outage' and trouble ~= 'outage' then newTrouble, newCode = trouble, code end
  keep(newTrouble, newCode, math.max(now + tonumber(forMs), over + 1), newStep)
  return 'extended'
end

function verbs.release(id)
  if probe == id then drop() end
  return 'released'
end

local isLate = deadline and now > deadline
local verdict = isLate and 'late' or verbs[verb](unpack(ARGV, 3))
return { now, verdict, unpack(state()) }
