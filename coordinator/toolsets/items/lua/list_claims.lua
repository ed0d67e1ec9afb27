--[[
purpose:   Lists live claims for people, by when they end or by when they began.
guarantee: A consistent snapshot. Claims that end soonest come from the index, O(log n + limit); for the other lists the
           LOOKED_MAX claims that end soonest are looked at.
args:      list offset limit
           list = ending: all, the one that ends soonest first; held: all, the one held longest first; expiring: those
           that end within EXPIRING_MS, as ending; stalled: those without a sign of life for half their TTL, the longest
           silent first
reply:     {now, live claims, how many of these are expiring, how many were looked at, how many are in the list, rows}
           row = {row of the item (modules/rows.lua), what its agent is (modules/agents.lua), last sign of life (ms):
           when the claim was placed or renewed, or the item changed last, whether it is stalled}
errors:    none
writes:    none
--]]
local agents = require 'agents'
local items = require 'items'
local read = require 'read'
local rows = require 'rows'

local EXPIRING_MS = 60000
local LOOKED_MAX = 2000

-- The live claims of some positions in leases after those that have expired, as a list of items.
local function claimed(run, first, last)
  local expired = redis.call('ZCOUNT', run.keys.leases, '-inf', run.now)
  local names, list = redis.call('ZRANGE', run.keys.leases, expired + first, expired + last), {}
  if not names[1] then return list end
  for _, id in ipairs(redis.call('HMGET', run.keys.agents, unpack(names))) do
    local record = id and redis.call('HGET', run.keys.item .. id, 'w')
    if record then
      local item = {id = id}
      items.unpack_record(item, record)
      list[#list + 1] = item
    end
  end
  return list
end

local function last_sign(item)
  return math.max(item.claimed_at, item.modified_at or 0, item.role_changed_at or 0)
end

local function is_stalled(run, item)
  return 2 * (run.now - last_sign(item)) > item.expires - item.claimed_at
end

local function only_stalled(run, list)
  local found = {}
  for _, item in ipairs(list) do
    if is_stalled(run, item) then found[#found + 1] = item end
  end
  return found
end

local KEYS = {held = function(item) return item.first_claimed_at end, stalled = last_sign}

-- The first of `limit` from `offset` on, how many there are, and how many were looked at.
local function page_of(run, list, live, offset, limit)
  local key = KEYS[list]
  if not key then return claimed(run, offset, math.min(offset + limit, live) - 1), live, live end
  local found = claimed(run, 0, LOOKED_MAX - 1)
  local looked, page = #found, {}
  if list == 'stalled' then found = only_stalled(run, found) end
  table.sort(found, function(one, other)
    if key(one) ~= key(other) then return key(one) < key(other) end
    return one.id < other.id
  end)
  for n = offset + 1, math.min(offset + limit, #found) do page[#page + 1] = found[n] end
  return page, list == 'held' and live or #found, looked
end

return function(run, list, offset, limit)
  return read(run, function()
    local live = redis.call('ZCOUNT', run.keys.leases, run.now + 1, '+inf')
    local expiring = redis.call('ZCOUNT', run.keys.leases, run.now + 1, run.now + EXPIRING_MS)
    local size = list == 'expiring' and expiring or live
    local page, total, looked = page_of(run, list, size, tonumber(offset), tonumber(limit))
    local shown = {}
    for n, item in ipairs(page) do
      local known_as = agents.load(run, item.holder).known_as
      shown[n] = {rows.of(run, item.id), known_as, last_sign(item), is_stalled(run, item)}
    end
    return {run.now, live, expiring, looked, total, shown}
  end)
end
