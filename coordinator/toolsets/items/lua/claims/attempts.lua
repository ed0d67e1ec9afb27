-- Attempts: claims that ended without taking the item out of its role, work or review. They are counted in the step in
-- which a claim ends, or in which its expiry is noticed first, so never twice. An item with as many as it may have, or
-- with one that was hopeless, is quarantined; others are held back for a time that doubles with each.
--   an  attempts that count: since the item was created, resumed from quarantine or reopened; absent before the first
--   am  the most that it may have, if the item says so; 0: any number
--   rb  its first back-off in seconds, if the item says so; 0: none
-- Beside the item is `a`, the JSON list of its last attempts, the last one first: {from, until (ms), how it ended,
-- agent, reason or '', detail or ''}.
-- The part `a` of the settings (terms.lua): {most, first back-off, longest back-off (ms), most by schema or
-- false, name of the default schema or ''}; by schema -1 = as for all. Without settings, attempts are counted, no more.
-- Events: attempt shows a agent, f fence, n attempts that count, e how it ended, r reason; quarantine shows n, m the
-- most; the transition of a quarantine has the trigger `quarantine`.
-- owns: text.a
local agents = require 'agents'
local classes = require 'classes'
local clock = require 'clock'
local held_back = require 'held_back'
local holds = require 'holds'
local item_events = require 'item_events'
local items = require 'items'
local terms = require 'terms'
local transitions = require 'transitions'

local BLOCKED = classes.BLOCKED

local attempts = {}

local KEPT = 20
local LABEL = 'quarantined'
local NO_SETTINGS = {0, 0, 0, false}
local JITTER = 0.25 -- the most by which a back-off exceeds its time, the longest too: items do not return together
local DOUBLED_MAX = 40
local COUNTED, HOPELESS = {failed = true, gave_up = true}, 'hopeless' -- reasons of releases

local function settings_of(run)
  return run.settings.a or NO_SETTINGS
end

-- The most attempts of an item; 0: any number.
local function most_of(run, item)
  local settings = settings_of(run)
  local known, own = settings[4], nil
  if item.am then return tonumber(item.am) end
  if known then own = known[terms.schema_name(item, known, settings[5])] end
  return own and own >= 0 and own or settings[1]
end

-- How long an item is held back after its attempt of this number (ms), 0: not at all. The jitter follows from the
-- claim, because random numbers of scripts repeat themselves.
local function backoff_of(run, item, number)
  local settings = settings_of(run)
  local first, longest = item.rb and item.rb * 1000 or settings[2], settings[3]
  if first == 0 then return 0 end
  local nominal = first * 2 ^ math.min(number - 1, DOUBLED_MAX)
  local digits = string.sub(redis.sha1hex(item.id .. clock.whole(item.fence)), 1, 6)
  local jitter = JITTER * tonumber(digits, 16) / 2 ^ 24
  return math.floor(math.min(nominal, longest) * (1 + jitter))
end

-- Adds an attempt to the record of an item.
local function record(run, item, row)
  local known = redis.call('HGET', run.keys.text .. item.id, 'a')
  local list = known and cjson.decode(known) or {}
  table.insert(list, 1, row)
  list[KEPT + 1] = nil
  redis.call('HSET', run.keys.text .. item.id, 'a', cjson.encode(list))
end

-- Gives an item that is restored its attempts (JSON, '' for none).
function attempts.restore(run, item, list)
  if list ~= '' then redis.call('HSET', run.keys.text .. item.id, 'a', list) end
end

-- Whether the end of the item's claim is an attempt: in work always; in review if the claim was placed after the item
-- came there, so not that of the agent whose work is to be reviewed.
function attempts.is_one(item)
  return classes.is_left(item, item.role)
end

-- Whether a release of the item for this reason is one: a hopeless one also in queue.
function attempts.is_counted(item, reason)
  return reason == HOPELESS and item.role <= classes.REVIEW or COUNTED[reason] and attempts.is_one(item)
end

-- Counts the claim of an item as an attempt, before it is cleared. `ended` = expired, taken_over or released, at a time
-- (ms); reason and detail: of a release, else ''. The caller moves the item to its class, then calls `attempts.judge`.
function attempts.count(run, item, ended, at, reason, detail)
  items.load(run, item.id) -- the whole item
  local number = tonumber(item.an or 0) + 1
  items.set(item, 'an', number)
  agents.count_attempt(run, item.holder)
  record(run, item, {math.min(item.fence, item.claimed_at), at, ended, item.holder, reason, detail})
  holds.count(run, 'a' .. (reason ~= '' and reason or ended))
  local fence, told = clock.whole(item.fence), reason ~= '' and {'r', reason} or {}
  item_events.emit(run, 'attempt', item, 'a', item.holder, 'f', fence, 'n', number, 'e', ended, unpack(told))
  held_back.finish(run, item) -- a claim by id may have come before the end of the last back-off
  local most, ends = most_of(run, item), at + backoff_of(run, item, number)
  local last = most > 0 and number >= most and 'after ' .. number .. ' attempts'
  item.used_up = reason == HOPELESS and 'as hopeless' or last -- why it is quarantined
  if ends > run.now and not item.used_up then held_back.postpone(run, item, ends) end
  items.save(run, item)
end

-- Quarantines an item whose last attempt has been counted, if it is to have no further one: it is blocked, and `resume`
-- brings it back to where it was.
function attempts.judge(run, item)
  if not item.used_up then return end
  local number = tonumber(item.an)
  local author = {id = '', actor = '', verification = '', summary = 'quarantined ' .. item.used_up}
  item.used_up = nil
  transitions.change_role(run, item, BLOCKED, 'quarantine', LABEL, author)
  holds.count(run, 'q')
  item_events.emit(run, 'quarantine', item, 'n', number, 'm', most_of(run, item))
end

return attempts
