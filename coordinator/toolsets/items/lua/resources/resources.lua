-- What the claims of a project hold of resources: `rh` of the item, in the form of demands.lua. A claim takes
-- what its item demands, all of it or nothing, in the step that places it. It gives it back in the step in which it
-- ends, or its item becomes terminal.
--   resources  node -> the four numbers held there (demands.lua), reserved ones (fairness.lua) among
--                      them, in 6 bytes each; '~' .. node -> what is left of its units per minute, a blank, since
--                      when (ms)
-- Exclusive units may be taken at a node up to its capacity, those below it counted too; of a node without a limit they
-- exclude all others at it and below. Shared ones exclude exclusive ones at, above and below the node, and take none.
-- Units per minute come back evenly. So many can be saved as the node has capacity: any number of units that can be
-- demanded can be taken some time.
-- In a call: held, by node: what is held there, as the key resources has it, and left of its units per minute; rated,
-- whether that has been read of any; refill_ms, as below.
-- owns: item.rh resources
local agents = require 'agents'
local available = require 'available'
local demands = require 'demands'
local fitting = require 'fitting'
local items = require 'items'

local resources = {}

local NOTHING = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' -- held, as it is stored
local MINUTE = 60000
local RATE = '~' -- before the name of a node
local HELD = '>I6I6I6I6'

local function own_of(run)
  run[resources] = run[resources] or {held = {}, rated = false}
  return run[resources]
end

-- After how many ms units per minute come back that this call has lacked; nil: it has not.
function resources.refill_ms(run)
  return run[resources] and run[resources].refill_ms
end

-- The names of nodes that are not read yet, and then, for those of them with units per minute, what is stored of these.
local function unread(held, names, rates)
  local missing, rated, last = {}, {}, 0
  for n = 1, #names do
    local name = names[n]
    if not held[name] then
      last = last + 1
      missing[last] = name
      if rates[name] then rated[#rated + 1] = name end
    end
  end
  for n, name in ipairs(rated) do missing[last + n] = RATE .. name end
  return missing, last, rated
end

-- Reads what is held at some nodes, and left of their units per minute. Returns whether that was not known yet.
local function read(run, names, capacities, rates)
  local held, missing, last, rated = own_of(run).held, names, #names, nil
  if next(held) or next(rates) then missing, last, rated = unread(held, names, rates) end
  if last == 0 then return false end
  local texts = redis.call('HMGET', run.keys.resources, unpack(missing))
  for n = 1, last do held[missing[n]] = texts[n] or NOTHING end
  for n, name in ipairs(rated or {}) do
    local left, since = string.match(texts[last + n] or '', '^(%S+) (%d+)$')
    local units, per_minute = capacities[name], rates[name]
    held[RATE .. name] = left and math.min(units, left + (run.now - since) * per_minute / MINUTE) or units
    run[resources].rated = true
  end
  return true
end

-- What is held at a node (numbers), without that of some demands (texts).
local function held_without(held, name, less)
  local x, s, below, s_below = struct.unpack(HELD, held)
  for n = 1, #less do
    local node = fitting.at(less[n], name)
    x, s, below, s_below = x - node[2], s - node[3], below - node[4], s_below - node[5]
  end
  return x, s, below, s_below
end

-- The first of the nodes read so far at which others hold too much; nil: none.
local function taken_node(run, nodes, less, capacities)
  local held = own_of(run).held
  for n = 1, #nodes do
    local node = nodes[n]
    local name = node[1]
    local there = held[name]
    if there and not fitting.fits(node, capacities[name], held_without(there, name, less)) then return name end
  end
end

-- The first node at which there is less left of its units per minute than demanded, and after how many ms that will be
-- otherwise; nil: none.
local function exhausted_node(run, nodes, rates)
  local own = run[resources]
  for _, node in ipairs(nodes) do
    local name = node[1]
    local left = rates[name] and own.held[RATE .. name]
    local needed = left and node[2] + node[3] + node[4] + node[5] or 0
    if left and left < needed then
      local wait = math.ceil((needed - left) * MINUTE / rates[name])
      own.refill_ms = math.min(own.refill_ms or wait, wait)
      return name, wait
    end
  end
end

-- The first of some nodes at which demands cannot be met now; nil: they can. And after how many ms that will be
-- otherwise, if that is known. `less` = demands that are held and no obstacle.
function resources.busy_node(run, nodes, less)
  local capacities, rates = demands.limits(run)
  -- Mostly the same node keeps many items: it is read once.
  local taken = next(own_of(run).held) and taken_node(run, nodes, less, capacities)
  if not taken and read(run, nodes.names, capacities, rates) then taken = taken_node(run, nodes, less, capacities) end
  if taken then return taken end
  if run[resources].rated then return exhausted_node(run, nodes, rates) end
end

-- The first node at which further demands of a claim are too much together with what it holds; nil: none.
function resources.exceeded_node(run, held, further)
  local nodes, capacities = demands.nodes_of(held .. ',' .. further), demands.limits(run)
  read(run, nodes.names, demands.limits(run))
  return taken_node(run, nodes, {held}, capacities)
end

-- Of some nodes {exclusive units held at it or below it, shared ones, what is left of its units per minute or -1: they
-- are not bounded}.
function resources.at(run, names)
  local list, held = {}, own_of(run).held
  read(run, names, demands.limits(run))
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
  local nodes, held, set, gone, last = demands.nodes_of(text), own_of(run).held, {}, nil, 0
  for n = 1, #nodes do
    local node = nodes[n]
    local name = node[1]
    if not held[name] then read(run, nodes.names, demands.limits(run)) end
    local x, s, below, s_below = struct.unpack(HELD, held[name])
    x, s, below, s_below = x + sign * node[2], s + sign * node[3], below + sign * node[4], s_below + sign * node[5]
    local now = struct.pack(HELD, x, s, below, s_below)
    held[name] = now
    if now ~= NOTHING then
      set[last + 1], set[last + 2] = name, now
      last = last + 2
    else
      gone = gone or {}
      gone[#gone + 1] = name
    end
  end
  if set[1] then redis.call('HSET', run.keys.resources, unpack(set)) end
  if gone then redis.call('HDEL', run.keys.resources, unpack(gone)) end
  if sign < 0 and not run.absent[run.keys.waiting] then available.note(run, 'given_back', text) end
end

-- Gives to the claim of an item what it demands (a text); the caller stores `rh`.
function resources.take(run, item, text)
  resources.change(run, text, 1)
  item.rh = item.rh and item.rh .. ',' .. text or text
  if not run[resources].rated then return end
  local held, used, _, rates = run[resources].held, {}, demands.limits(run)
  for _, node in ipairs(demands.nodes_of(text)) do
    if rates[node[1]] then
      local name = RATE .. node[1]
      local left = held[name] - node[2] - node[3] - node[4] - node[5]
      held[name] = left
      used[#used + 1], used[#used + 2] = name, string.format('%.6f %.0f', left, run.now)
    end
  end
  if used[1] then redis.call('HSET', run.keys.resources, unpack(used)) end
end

-- Adds further demands to what a live claim holds, and stores that; nil: none.
function resources.take_further(run, item, text)
  if not text then return end
  resources.take(run, item, text)
  redis.call('HSET', run.keys.item .. item.id, 'rh', item.rh)
end

-- Gives back what the claim of an item holds.
function resources.give_back(run, item)
  resources.change(run, item.rh, -1)
  item.rh = nil
  redis.call('HDEL', run.keys.item .. item.id, 'rh')
end

return resources
