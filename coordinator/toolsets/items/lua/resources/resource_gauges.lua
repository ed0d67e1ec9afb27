-- What claims hold of some resources, and what waits for them, for metrics. It costs the same at any number of items:
-- those that wait for a busy key are counted by their sets (apart.lua). Of those that are in none, because
-- hardly any others demand their keys, the ones are counted that callers have passed over.
-- owns: none
local apart = require 'apart'
local classes = require 'classes'
local demands = require 'demands'
local fairness = require 'fairness'
local items = require 'items'
local resources = require 'resources'

local BLOCKED, CLASS_SIZE, STATES = classes.BLOCKED, classes.CLASS_SIZE, classes.STATES

local PASSED_MAX = 200 -- the longest passed over of these

-- Adds items that wait for any of the keys, at some nodes (demands.lua); `since` = when callers first passed
-- them over.
local function add(run, by_key, nodes, count, since)
  for _, node in ipairs(nodes) do
    local row = by_key[node[1]]
    if row and resources.busy_node(run, {node, names = {node[1]}}, {}) then
      row[5] = row[5] + count
      row[6] = math.max(row[6], since and run.now - since or 0)
    end
  end
end

local function add_sets(run, by_key)
  for _, member in ipairs(redis.call('ZRANGE', run.keys.apart, 0, -1)) do
    local class, set = string.byte(member) - 48, apart.set_of_member(member)
    local conditions = string.match(set, '|(.*)$')
    local nodes = conditions and demands.nodes_of_conditions(conditions) or {}
    if nodes[1] and math.floor(class / STATES) ~= BLOCKED then
      local low, key = class * CLASS_SIZE, run.keys.ranked .. apart.scope(set, '*')
      local since = tonumber(redis.call('ZSCORE', run.keys.passed_over, fairness.SET .. conditions))
      add(run, by_key, nodes, redis.call('ZCOUNT', key, low, low + CLASS_SIZE - 1), since)
    end
  end
end

-- The nodes of an item that its set does not have.
local function other_nodes(item)
  local list, in_set = {}, {}
  for _, node in ipairs(item.as and demands.nodes_of_conditions(item.as) or {}) do in_set[node[1]] = true end
  for _, node in ipairs(demands.nodes_of(item.rs)) do
    if not in_set[node[1]] then list[#list + 1] = node end
  end
  return list
end

local function add_passed(run, by_key)
  local flat = redis.call('ZRANGE', run.keys.passed_over, 0, PASSED_MAX - 1, 'WITHSCORES')
  for n = 1, #flat, 2 do
    local item = string.sub(flat[n], 1, 1) ~= fairness.SET and items.load(run, flat[n])
    if item and item.rs and classes.READY_CLASSES[item.class] then
      add(run, by_key, other_nodes(item), 1, tonumber(flat[n + 1]))
    end
  end
end

-- Of each key {exclusive units held, shared claims, left of the units per minute or -1, reservations, items that wait,
-- for how long callers have passed over those of them that nobody has got (ms)}; nothing if no item has demanded any.
return function(run, keys)
  if not keys[1] or redis.call('EXISTS', run.keys.demands, run.keys.resources) == 0 then return {} end
  local rows, by_key = resources.at(run, keys), {}
  for n, key in ipairs(keys) do
    local row = rows[n]
    row[4], row[5], row[6] = 0, 0, 0
    by_key[key] = row
  end
  for _, known in pairs(fairness.reserved(run)) do
    for _, node in ipairs(demands.nodes_of(known[2])) do
      local name, here, shared, below, shared_below = unpack(node)
      local row = by_key[name]
      if row then
        row[1], row[2], row[4] = row[1] - here - below, row[2] - shared - shared_below, row[4] + 1
      end
    end
  end
  add_sets(run, by_key)
  add_passed(run, by_key)
  return rows
end
