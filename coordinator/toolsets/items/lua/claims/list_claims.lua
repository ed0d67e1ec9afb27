--[[
purpose:   Lists live claims for people, by when they end or by when they began.
guarantee: A consistent snapshot. Claims that end soonest come from the index, O(log n + limit); for the other lists the
           LOOKED_MAX claims that end soonest are looked at.
args:      list offset limit
           list = ending: all, the one that ends soonest first; held: all, the one held longest first; expiring: those
           that end within EXPIRING_MS, as ending; stalled: those without a sign of life for half their TTL, the longest
           silent first
reply:     Claims (store/boards/claim_lists.py)
errors:    none
--]]
local agents = require 'agents'
local claim_ends = require 'claim_ends'
local item_record = require 'item_record'
local read = require 'read'
local rows = require 'rows'

local EXPIRING_MS = 60000
local LOOKED_MAX = 1000

-- The live claims of some positions, the one that ends soonest first, as {id, first claimed at, last sign of
-- life, whether it is stalled, agent}.
local function claimed(run, first, last)
  if last < first then return {} end
  local from, to, count = '(' .. run.now, claim_ends.LIVE_MAX, last - first + 1
  local names, list = redis.call('ZRANGEBYSCORE', run.keys.leases, from, to, 'LIMIT', first, count), {}
  if not names[1] then return list end
  for n, id in ipairs(redis.call('HMGET', run.keys.agents, unpack(names))) do
    local record = id and redis.call('HGET', run.keys.item .. id, 'w')
    if record then
      local role_changed, modified, _, expires, renewed, placed = item_record.claim_times(record)
      local sign = math.max(renewed, modified, role_changed)
      list[#list + 1] = {id, placed, sign, 2 * (run.now - sign) > expires - renewed, names[n]}
    end
  end
  return list
end

local function only_stalled(list)
  local found = {}
  for _, claim in ipairs(list) do
    if claim[4] then found[#found + 1] = claim end
  end
  return found
end

local KEYS = {held = 2, stalled = 3} -- by which a list is sorted

-- The claims of a page of the list, how many are in it, and how many were looked at.
local function page_of(run, list, size, offset, limit)
  local key = KEYS[list]
  if not key then return claimed(run, offset, math.min(offset + limit, size) - 1), size, size end
  local found = claimed(run, 0, LOOKED_MAX - 1)
  local looked, page = #found, {}
  if list == 'stalled' then found = only_stalled(found) end
  table.sort(found, function(one, other)
    if one[key] ~= other[key] then return one[key] < other[key] end
    return one[1] < other[1]
  end)
  for n = offset + 1, math.min(offset + limit, #found) do page[#page + 1] = found[n] end
  return page, list == 'held' and size or #found, looked
end

return function(run, list, offset, limit)
  return read(run, function()
    local live = claim_ends.count(run, run.now)
    local expiring = claim_ends.count(run, run.now, run.now + EXPIRING_MS)
    local size = list == 'expiring' and expiring or live
    local page, total, looked = page_of(run, list, size, tonumber(offset), tonumber(limit))
    local shown = {}
    for n, claim in ipairs(page) do
      shown[n] = {rows.of(run, claim[1]), agents.load(run, claim[5]).known_as, claim[3], claim[4]}
    end
    return {run.now, live, expiring, looked, total, shown}
  end)
end
