--[[
purpose:   Lists resources for people: those that the settings limit, that open items demand, and that claims hold.
guarantee: A consistent snapshot. The LOOKED_MAX claims that end soonest are looked at, and about as many demands, at
           any number of items.
args:      run.terms offset limit
reply:     ResourcePage (store/resources.py)
errors:    none
--]]
local claim_ends = require 'claim_ends'
local demands = require 'demands'
local fairness = require 'fairness'
local items = require 'items'
local read = require 'read'
local resource_gauges = require 'resource_gauges'

local LOOKED_MAX = 1000
local SHOWN_MAX = 5
local NOTHING = {0, 0, -1, 0, 0, 0}

-- The items of live claims, those that end soonest, at most LOOKED_MAX; and the agents.
local function claimed(run)
  local live, last = '(' .. run.now, claim_ends.LIVE_MAX
  local names = redis.call('ZRANGEBYSCORE', run.keys.leases, live, last, 'LIMIT', 0, LOOKED_MAX)
  return names[1] and redis.call('HMGET', run.keys.agents, unpack(names)) or {}, names
end

-- Adds an entry to the list of each node of demands, and their keys to a set.
local function add(lists, keys, text, entry)
  for _, node in ipairs(demands.nodes_of(text)) do
    local name = node[1]
    lists[name] = lists[name] or {}
    table.insert(lists[name], entry)
    if node[2] + node[3] > 0 then keys[name] = true end
  end
end

-- The first entries {id, agent} of a list, as people read them.
local function shown(run, list)
  local found = {}
  for n = 1, math.min(#(list or {}), SHOWN_MAX) do
    local item = items.load(run, list[n][1])
    found[n] = {item.id, items.title_of(run, item), list[n][2]}
  end
  return found
end

-- The keys of a set as {key, how many open items demand it}, most first, then by name.
local function sorted(run, keys)
  local list, part = {}, {}
  local function add_part()
    for key, count in pairs(demands.counts(run, part)) do list[#list + 1] = {key, count} end
    part = {}
  end
  for key in pairs(keys) do
    part[#part + 1] = key
    if #part == LOOKED_MAX then add_part() end
  end
  add_part()
  table.sort(list, function(one, other)
    if one[2] ~= other[2] then return one[2] > other[2] end
    return one[1] < other[1]
  end)
  return list
end

-- The keys in order, by node what holds it and what it is reserved for, whether there may be more keys,
-- and how many claims were looked at.
local function find(run)
  local keys, more = demands.some(run, LOOKED_MAX)
  local ids, names = claimed(run)
  local holders, reserved = {}, {}
  for n, id in ipairs(ids) do
    local held = id and redis.call('HGET', run.keys.item .. id, 'rh')
    if held then add(holders, keys, held, {id, names[n]}) end
  end
  for id, known in pairs(fairness.reserved(run)) do
    if items.load(run, id) then add(reserved, keys, known[2], {id, ''}) end
  end
  for key in pairs((demands.limits(run))) do keys[key] = true end
  return sorted(run, keys), holders, reserved, more, #ids
end

return function(run, offset, limit)
  return read(run, function()
    local list, holders, reserved, more, looked = find(run)
    local page, rows, capacities, rates = {}, {}, demands.limits(run)
    for n = offset + 1, math.min(offset + limit, #list) do page[#page + 1] = list[n][1] end
    local gauges = resource_gauges(run, page)
    for n, key in ipairs(page) do
      local capacity, per_minute = capacities[key] or 1, rates[key] or 0
      local exclusive, shared, left, _, waiting = unpack(gauges[n] or NOTHING)
      rows[n] = {key, capacity, per_minute, left < 0 and capacity or left, exclusive, shared, list[offset + n][2],
        waiting, #(holders[key] or {}), shown(run, holders[key]), shown(run, reserved[key])}
    end
    local live = claim_ends.count(run, run.now)
    return {run.now, #list, more, live, looked, rows}
  end)
end
