--[[
purpose:   Counts a project's abandoned items, and lists the longest abandoned ones.
guarantee: O(log n + limit + late), where late = expired claims not put back yet, of which at most 500 are read;
           writes nothing.
args:      limit
reply:     Abandoned (store/measures/items.py)
errors:    none
--]]
local abandoned = require 'abandoned'
local classes = require 'classes'
local items = require 'items'
local read = require 'read'

local WAITING_OFFSET = abandoned.WAITING_OFFSET

local LATE_MAX = 500

-- Adds the longest abandoned items that wait for a dependency, or that do not, to the list; returns their total number.
local function add_noted(run, list, waits, most)
  local first = waits and WAITING_OFFSET or 0
  local last = first + WAITING_OFFSET - 1
  local flat = redis.call('ZRANGEBYSCORE', run.keys.abandoned, first, last, 'WITHSCORES', 'LIMIT', 0, most + 1)
  for n = 1, #flat, 2 do list[#list + 1] = {flat[n], flat[n + 1] - first, waits} end
  return redis.call('ZCOUNT', run.keys.abandoned, first, last)
end

-- Adds items with expired claims not put back yet; returns how many of these do not wait for a dependency, and how many
-- do.
local function add_late(run, list)
  local free, waiting = 0, 0
  local agents = redis.call('ZRANGEBYSCORE', run.keys.leases, '-inf', run.now, 'LIMIT', 0, LATE_MAX)
  for _, id in ipairs(agents[1] and redis.call('HMGET', run.keys.agents, unpack(agents)) or {}) do
    local item = id and items.load(run, id)
    if item and classes.is_held(item) and classes.is_left(item, item.role) then
      local waits = classes.waits(item) and true or false
      if waits then waiting = waiting + 1 else free = free + 1 end
      list[#list + 1] = {id, item.expires, waits}
    end
  end
  return free, waiting
end

-- Available ones first, then by when they were left.
local function comes_before(one, other)
  if one[3] ~= other[3] then return other[3] end
  if one[2] ~= other[2] then return one[2] < other[2] end
  return one[1] < other[1]
end

return function(run, limit)
  return read(run, function()
    local most, list = tonumber(limit), {}
    local free, waiting = add_noted(run, list, false, most), add_noted(run, list, true, most)
    local late_free, late_waiting = add_late(run, list)
    table.sort(list, comes_before)
    local oldest = list[1] and not list[1][3] and list[1][2] or 0
    for n = #list, most + 1, -1 do list[n] = nil end
    return {run.now, free + late_free, waiting + late_waiting, oldest, list}
  end)
end
