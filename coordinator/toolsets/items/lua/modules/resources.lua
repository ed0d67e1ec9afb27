-- What the claims of a project hold of resources: `rh` of the item, in the form of modules/demands.lua. A claim takes
-- what its item demands, all of it or nothing, in the step that places it. It gives it back in the step in which it
-- ends, or its item becomes terminal.
--   resources  node -> the four numbers held there (modules/demands.lua), reserved ones (modules/fairness.lua) among
--                      them, in 6 bytes each; '~' .. node -> what is left of its units per minute, a blank, since
--                      when (ms)
-- Exclusive units may be taken at a node up to its capacity, those below it counted too; of a node without a limit they
-- exclude all others at it and below. Shared ones exclude exclusive ones at, above and below the node, and take none.
-- Units per minute come back evenly. So many can be saved as the node has capacity: any number of units that can be
-- demanded can be taken some time.
local agents = require 'agents'
local demands = require 'demands'
local items = require 'items'

local resources = {}

local NONE = {0, 0, 0, 0}
local NOTHING = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' -- held, as it is stored
local MINUTE = 60000
local RATE = '~' -- before the name of a node
local HELD = '>I6I6I6I6'

-- Reads what is held at some nodes, and left of their units per minute. Returns whether that was not known yet.
local function read(run, nodes, limits)
  local held, missing, rated, last = run.held_at, {}, {}, 0
  for n = 1, #nodes do
    local node = nodes[n][1]
    if not held[node] then
      last = last + 1
      missing[last] = node
      if limits[node] and limits[node][2] > 0 then rated[#rated + 1] = node end
    end
  end
  if last == 0 then return false end
  for n, node in ipairs(rated) do missing[last + n] = RATE .. node end
  run.some_rated = run.some_rated or rated[1] ~= nil
  local texts = redis.call('HMGET', run.keys.resources, unpack(missing))
  for n = 1, last do held[missing[n]] = texts[n] or NOTHING end
  for n, node in ipairs(rated) do
    local units, per_minute = unpack(limits[node])
    local left, since = string.match(texts[last + n] or '', '^(%S+) (%d+)$')
    held[RATE .. node] = left and math.min(units, left + (run.now - since) * per_minute / MINUTE) or units
  end
  return true
end

-- Whether demands at a node can be met beside those of others (numbers); `units` = the node's capacity, nil: it has no
-- limit.
local function fits(wanted, units, exclusive, shared, exclusive_below, shared_below)
  local x, s, below, s_below = wanted[1], wanted[2], wanted[3], wanted[4]
  if x > 0 and shared + shared_below > 0 or below > 0 and shared > 0 then return false end
  if s > 0 and exclusive + exclusive_below > 0 or s_below > 0 and exclusive > 0 then return false end
  if x + below == 0 then return true end
  if units then return exclusive + exclusive_below + x + below <= units end
  return exclusive == 0 and (x == 0 or exclusive_below == 0)
end

-- What is held at a node (numbers), without that of some demands (texts).
local function held_without(held, node, less)
  local left = {struct.unpack(HELD, held)}
  for _, text in ipairs(less) do
    for n, number in ipairs(demands.nodes_of(text).at[node] or NONE) do left[n] = left[n] - number end
  end
  return unpack(left)
end

-- The first of the nodes read so far at which others hold too much; nil: none.
local function taken_node(run, nodes, less, limits)
  local held, all = run.held_at, not less[1]
  for n = 1, #nodes do
    local node, wanted = nodes[n][1], nodes[n][2]
    local there, limit = held[node], limits[node]
    local units = limit and limit[1]
    if there == NOTHING then
      if units and wanted[1] + wanted[3] > units then return node end
    elseif there and all then
      if not fits(wanted, units, struct.unpack(HELD, there)) then return node end
    elseif there and not fits(wanted, units, held_without(there, node, less)) then
      return node
    end
  end
end

-- The first node at which there is less left of its units per minute than demanded, and after how many ms that will be
-- otherwise; nil: none.
local function exhausted_node(run, nodes, limits)
  for _, one in ipairs(nodes) do
    local node, wanted = one[1], one[2]
    local limit = limits[node]
    local left = limit and limit[2] > 0 and run.held_at[RATE .. node]
    local needed = left and wanted[1] + wanted[2] + wanted[3] + wanted[4] or 0
    if left and left < needed then
      local wait = math.ceil((needed - left) * MINUTE / limit[2])
      run.refill_ms = math.min(run.refill_ms or wait, wait)
      return node, wait
    end
  end
end

-- The first of some nodes at which demands cannot be met now; nil: they can. And after how many ms that will be
-- otherwise, if that is known. `less` = demands that are held and no obstacle.
function resources.busy_node(run, nodes, less)
  local limits = demands.limits(run)
  -- Mostly the same node keeps many items: it is read once.
  local taken = next(run.held_at) and taken_node(run, nodes, less, limits)
  if not taken and read(run, nodes, limits) then taken = taken_node(run, nodes, less, limits) end
  if taken then return taken end
  if run.some_rated then return exhausted_node(run, nodes, limits) end
end

-- The first node at which further demands of a claim are too much together with what it holds; nil: none.
function resources.exceeded_node(run, held, further)
  local nodes = demands.nodes_of(held .. ',' .. further)
  local limits = demands.limits(run)
  read(run, nodes, limits)
  return taken_node(run, nodes, {held}, limits)
end

-- Whether demands can be met beside these others alone, as far as capacities go.
function resources.suit(run, text, others)
  local limits = demands.limits(run)
  for _, one in ipairs(demands.nodes_of(text)) do
    local limit, sum = limits[one[1]], {0, 0, 0, 0}
    for _, other in ipairs(others) do
      for n, number in ipairs(demands.nodes_of(other).at[one[1]] or NONE) do sum[n] = sum[n] + number end
    end
    if not fits(one[2], limit and limit[1], unpack(sum)) then return false end
  end
  return true
end

-- Of some nodes {exclusive units held at it or below it, shared ones, what is left of its units per minute or -1: they
-- are not bounded}.
function resources.at(run, names)
  local nodes, list = {}, {}
  for n, name in ipairs(names) do nodes[n] = {name} end
  read(run, nodes, demands.limits(run))
  local held = run.held_at
  for n, name in ipairs(names) do
    local here, shared, below, shared_below = struct.unpack(HELD, held[name])
    list[n] = {here + below, shared + shared_below, held[RATE .. name] or -1}
  end
  return list
end

-- What the claim of an agent holds, as `less` for `busy_node`: it is given up with the next claim.
function resources.of_agent(run, agent)
  local id = agent and agent ~= '' and agents.item_of(run, agent)
  local item = id and items.load(run, id)
  return item and item.rh and item.holder == agent and {item.rh} or {}
end

-- Adds demands to what is held, or removes them (`sign` = -1).
function resources.change(run, text, sign)
  local nodes, held, set, gone, last = demands.nodes_of(text), run.held_at, {}, {}, 0
  for n = 1, #nodes do
    local node, wanted = nodes[n][1], nodes[n][2]
    if not held[node] then read(run, nodes, demands.limits(run)) end
    local x, s, below, s_below = struct.unpack(HELD, held[node])
    local now = struct.pack(HELD, x + sign * wanted[1], s + sign * wanted[2], below + sign * wanted[3],
      s_below + sign * wanted[4])
    held[node] = now
    if now ~= NOTHING then
      set[last + 1], set[last + 2] = node, now
      last = last + 2
    else
      gone[#gone + 1] = node
    end
  end
  if set[1] then redis.call('HSET', run.keys.resources, unpack(set)) end
  if gone[1] then redis.call('HDEL', run.keys.resources, unpack(gone)) end
  if sign < 0 and not run.nobody_waits then run.given_back[#run.given_back + 1] = text end
end

-- Gives to the claim of an item what it demands (a text); the caller stores `rh`.
function resources.take(run, item, text)
  resources.change(run, text, 1)
  item.rh = item.rh and item.rh .. ',' .. text or text
  if not run.some_rated then return end
  local used, limits = {}, demands.limits(run)
  for _, one in ipairs(demands.nodes_of(text)) do
    local limit = limits[one[1]]
    if limit and limit[2] > 0 then
      local name, wanted = RATE .. one[1], one[2]
      local left = run.held_at[name] - wanted[1] - wanted[2] - wanted[3] - wanted[4]
      run.held_at[name] = left
      used[#used + 1], used[#used + 2] = name, string.format('%.6f %.0f', left, run.now)
    end
  end
  if used[1] then redis.call('HSET', run.keys.resources, unpack(used)) end
end

-- Gives back what the claim of an item holds.
function resources.give_back(run, item)
  resources.change(run, item.rh, -1)
  item.rh = nil
  redis.call('HDEL', run.keys.item .. item.id, 'rh')
end

return resources
