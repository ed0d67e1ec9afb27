-- What items demand of resources (`rs` of modules/items.lua): for each key a mode (x exclusive, s shared), units, a
-- colon and the key, separated by commas. Keys are paths: each key and each of its ancestors is a *node*, and whether a
-- demand can be met shows at each of its nodes alone (modules/resources.lua). What is demanded at a node is four
-- numbers: units exclusive at the node, shared at it, exclusive below it, shared below it.
--   demands  node -> how many open items demand it or something below it, + HERE * how many of these demand it itself,
--     in 6 bytes
-- A node that more than FEW items demand is popular: a busy one would keep many items, so it is part of the set in
-- which a ready item is (modules/apart.lua). Items that others keep are met one by one: FEW of each node at most.
-- The part `r` of the settings (modules/terms.lua): {limits, demands by schema, by trait, name of the default schema or
-- ''}; a limit is {units, units per minute or 0}, by node. By schema is there for each schema, with the demands of its
-- default traits among them.
local remembered = require 'remembered'
local terms = require 'terms'

local demands = {}

local FEW = 8
local HERE = 2 ^ 24
local COUNT = '>I6'
local PLACES = 'xsyt' -- letters of the four numbers in conditions
local KNOWN_MAX = 200
local NO_LIMITS = {}

-- How much there is at nodes that the settings name: {units, units per minute or 0}.
function demands.limits(run)
  local settings = terms.part(run, 'r')
  return settings and settings[1] or NO_LIMITS
end

-- The nodes of demands, {node, {exclusive, shared, exclusive below, shared below}} of each; `at` = the same by node.
demands.nodes_of = remembered(KNOWN_MAX, function(text)
  local list, by_node = {}, {}
  local function add(node, place, amount)
    local numbers = by_node[node]
    if not numbers then
      numbers = {0, 0, 0, 0}
      by_node[node] = numbers
      list[#list + 1] = {node, numbers}
    end
    numbers[place] = numbers[place] + amount
  end
  for mode, units, key in string.gmatch(text, '(%l)(%d+):([^,]+)') do
    local place = mode == 'x' and 1 or 2
    add(key, place, tonumber(units))
    local above = string.match(key, '^(.+)/')
    while above do
      add(above, place + 2, tonumber(units))
      above = string.match(above, '^(.+)/')
    end
  end
  list.at = by_node
  return list
end)

-- Reads how many items demand each of some nodes.
local function read_counts(run, nodes)
  local missing, counts = {}, run.demand_counts
  for _, one in ipairs(nodes) do
    if not counts[one[1]] then missing[#missing + 1] = one[1] end
  end
  if not missing[1] then return counts end
  for n, count in ipairs(redis.call('HMGET', run.keys.demands, unpack(missing))) do
    counts[missing[n]] = count and struct.unpack(COUNT, count) or 0
  end
  return counts
end

-- Counts an open item with these demands (`by` = 1), or one that is not open any more (-1).
function demands.count(run, text, by)
  local nodes = demands.nodes_of(text)
  local counts, set, gone = read_counts(run, nodes), {}, {}
  for _, one in ipairs(nodes) do
    local node, numbers = one[1], one[2]
    local count = counts[node] + by * (numbers[1] + numbers[2] > 0 and HERE + 1 or 1)
    counts[node] = count
    if count > 0 then
      set[#set + 1], set[#set + 2] = node, struct.pack(COUNT, count)
    else
      gone[#gone + 1] = node
    end
  end
  if set[1] then redis.call('HSET', run.keys.demands, unpack(set)) end
  if gone[1] then redis.call('HDEL', run.keys.demands, unpack(gone)) end
end

-- How many open items demand a node of `text` or something below it, and how many of these the node itself.
local function counted(run, text, node)
  local count = read_counts(run, demands.nodes_of(text))[node]
  return count % HERE, math.floor(count / HERE)
end

-- About `most` keys that open items demand as {key: true}, and whether there may be more.
function demands.some(run, most)
  local cursor, flat = unpack(redis.call('HSCAN', run.keys.demands, 0, 'COUNT', most))
  local keys = {}
  for n = 1, #flat, 2 do
    local count = struct.unpack(COUNT, flat[n + 1])
    run.demand_counts[flat[n]] = count
    if count >= HERE then keys[flat[n]] = true end
  end
  return keys, cursor ~= '0'
end

-- How many open items demand each of at most 1000 keys or something below it, by key.
function demands.counts(run, keys)
  local nodes, found = {}, {}
  for n, key in ipairs(keys) do nodes[n] = {key} end
  local counts = read_counts(run, nodes)
  for _, key in ipairs(keys) do found[key] = counts[key] % HERE end
  return found
end

-- The condition of a set (modules/apart.lua) for a node, and node and numbers from it.
local function condition_of(one)
  local text = ''
  for place, number in ipairs(one[2]) do
    if number > 0 then text = text .. string.sub(PLACES, place, place) .. number end
  end
  return text .. ':' .. one[1]
end

-- The nodes of the conditions of a set.
demands.nodes_of_conditions = remembered(KNOWN_MAX, function(conditions)
  local list = {}
  for text, node in string.gmatch(conditions, '([xsyt%d]+):([^,]+)') do
    local numbers = {0, 0, 0, 0}
    for place, number in string.gmatch(text, '(%l)(%d+)') do
      numbers[string.find(PLACES, place, 1, true)] = tonumber(number)
    end
    list[#list + 1] = {node, numbers}
  end
  return list
end)

-- The conditions of an item that becomes ready, for modules/apart.lua: all of its popular nodes; else the one of its
-- own keys that most items demand, or the node above them.
function demands.conditions(run, text)
  local nodes = demands.nodes_of(text)
  local counts, all, key, any = read_counts(run, nodes), {}, nil, nil
  for _, one in ipairs(nodes) do
    local count = counts[one[1]] % HERE
    if count > FEW then
      all[#all + 1] = condition_of(one)
      local own = one[2][1] + one[2][2] > 0
      if own and not (key and key.count >= count) then key = {count = count, text = all[#all]} end
      if not (any and any.count >= count) then any = {count = count, text = all[#all]} end
    end
  end
  if not all[1] then return all end
  table.sort(all)
  return {table.concat(all, ','), (key or any).text}
end

-- The demands of a text one by one, as texts.
function demands.each(text)
  return string.gmatch(text, '[^,]+')
end

-- Adds the demands of a list to another one, for keys that are not there; both as texts.
local function merge(text, further)
  for demand, key in string.gmatch(further or '', '(%l%d+:([^,]+))') do
    if not string.find(',' .. string.gsub(text, '%l%d+:', '') .. ',', ',' .. key .. ',', 1, true) then
      text = text == '' and demand or text .. ',' .. demand
    end
  end
  return text
end

-- What an item demands: what it says itself ('' for nothing, nil: it does not say), else what its schema says, then its
-- traits; of equal keys the first one counts. Nil for nothing.
function demands.of(run, item, own)
  local settings, text = not own and terms.part(run, 'r'), own
  if settings then
    text = merge('', settings[2][terms.schema_name(item, settings[2], settings[4])])
    for trait in string.gmatch(item.q or '', '[^,]+') do text = merge(text, settings[3][trait]) end
  end
  return text ~= '' and text or nil
end

-- Whether anybody may want what this call has given back (modules/resources.lua).
function demands.are_wanted(run)
  local limits = demands.limits(run)
  for _, text in ipairs(run.given_back) do
    for _, one in ipairs(demands.nodes_of(text)) do
      local all, here = counted(run, text, one[1])
      local own = one[2][1] + one[2][2] > 0
      if here > 0 or all > 0 and (own or limits[one[1]]) then return true end
    end
  end
  return false
end

return demands
