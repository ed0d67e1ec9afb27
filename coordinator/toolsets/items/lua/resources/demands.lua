-- What items demand of resources (`rs` of items.lua): for each key a mode (x exclusive, s shared), units, a colon and
-- the key, separated by commas. Keys are paths: each key and each of its ancestors is a *node*, and whether a demand
-- can be met shows at each of its nodes alone (resources.lua): four numbers of units that are demanded exclusive at it,
-- shared at it, exclusive below it, shared below it.
--   demands  node -> how many open items demand it or something below it, + HERE * how many demand just it (6 bytes)
-- A node that more than FEW items demand is popular: a busy one would keep many items, so it is part of the set in
-- which a ready item is (apart.lua). Items that others keep are met one by one: FEW of each node at most.
-- The part `r` of the settings (terms.lua): {capacities by node, demands by schema (with its default traits), by trait,
-- name of the default schema or '', units per minute by node}. In a call: by node, how many items demand it.
-- owns: demands
local remembered = require 'remembered'
local terms = require 'terms'

local demands = {}

local FEW, HERE = 8, 2 ^ 24
local COUNT = '>I6'
local PLACES = ' xsyt' -- letters of the four numbers in conditions
local KNOWN_MAX = 200
local NONE = {}

-- How many units there are at nodes that the settings name, and at some of them per minute.
function demands.limits(run)
  local settings = run.settings.r
  if settings then return settings[1], settings[5] end
  return NONE, NONE
end

-- The nodes of demands, {name, exclusive, shared, exclusive below, shared below} of each; `names`, and `at` = by name.
demands.nodes_of = remembered(KNOWN_MAX, function(text)
  local list, names, by_name = {}, {}, {}
  local function add(name, place, amount)
    local node = by_name[name]
    if not node then
      node = {name, 0, 0, 0, 0}
      list[#list + 1], names[#list + 1], by_name[name] = node, name, node
    end
    node[place] = node[place] + amount
  end
  for mode, units, key in string.gmatch(text, '(%l)(%d+):([^,]+)') do
    local place = mode == 'x' and 2 or 3
    add(key, place, tonumber(units))
    local above = string.match(key, '^(.+)/')
    while above do
      add(above, place + 2, tonumber(units))
      above = string.match(above, '^(.+)/')
    end
  end
  list.names, list.at = names, by_name
  return list
end)

-- Reads how many items demand each of some nodes.
local function read_counts(run, names)
  local missing, counts = {}, run[demands] or {}
  run[demands] = counts
  for _, name in ipairs(names) do
    if not counts[name] then missing[#missing + 1] = name end
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
  local counts, set, gone = read_counts(run, nodes.names), {}, {}
  for _, node in ipairs(nodes) do
    local name = node[1]
    local count = counts[name] + by * (node[2] + node[3] > 0 and HERE + 1 or 1)
    counts[name] = count
    if count > 0 then
      set[#set + 1], set[#set + 2] = name, struct.pack(COUNT, count)
    else
      gone[#gone + 1] = name
    end
  end
  if set[1] then redis.call('HSET', run.keys.demands, unpack(set)) end
  if gone[1] then redis.call('HDEL', run.keys.demands, unpack(gone)) end
end

-- How many open items demand a node of `text` or something below it, and how many of these the node itself.
local function counted(run, text, name)
  local count = read_counts(run, demands.nodes_of(text).names)[name]
  return count % HERE, math.floor(count / HERE)
end

-- About `most` keys that open items demand as {key: true}, and whether there may be more.
function demands.some(run, most)
  local cursor, flat = unpack(redis.call('HSCAN', run.keys.demands, 0, 'COUNT', most))
  local keys, counts = {}, run[demands] or {}
  run[demands] = counts
  for n = 1, #flat, 2 do
    local count = struct.unpack(COUNT, flat[n + 1])
    counts[flat[n]] = count
    if count >= HERE then keys[flat[n]] = true end
  end
  return keys, cursor ~= '0'
end

-- How many open items demand each of at most 1000 keys or something below it, by key.
function demands.counts(run, keys)
  local counts, found = read_counts(run, keys), {}
  for _, key in ipairs(keys) do found[key] = counts[key] % HERE end
  return found
end

-- The condition of a set (apart.lua) for a node.
local function condition_of(node)
  local text = ''
  for place = 2, 5 do
    if node[place] > 0 then text = text .. string.sub(PLACES, place, place) .. node[place] end
  end
  return text .. ':' .. node[1]
end

-- The nodes of the conditions of a set, and `names`.
demands.nodes_of_conditions = remembered(KNOWN_MAX, function(conditions)
  local list, names = {}, {}
  for text, name in string.gmatch(conditions, '([xsyt%d]+):([^,]+)') do
    local node = {name, 0, 0, 0, 0}
    for letter, number in string.gmatch(text, '(%l)(%d+)') do
      node[string.find(PLACES, letter, 1, true)] = tonumber(number)
    end
    list[#list + 1], names[#list + 1] = node, name
  end
  list.names = names
  return list
end)

-- The conditions of an item that becomes ready, for apart.lua: all of its popular nodes; else the one of its
-- own keys that most items demand, or the node above them.
function demands.conditions(run, text)
  local nodes = demands.nodes_of(text)
  local counts, all, key, any = read_counts(run, nodes.names), {}, nil, nil
  for _, node in ipairs(nodes) do
    local count = counts[node[1]] % HERE
    if count > FEW then
      all[#all + 1] = condition_of(node)
      local own = node[2] + node[3] > 0
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
  local settings, text = not own and run.settings.r, own
  if settings then
    text = merge('', settings[2][terms.schema_name(item, settings[2], settings[4])])
    for trait in string.gmatch(item.q or '', '[^,]+') do text = merge(text, settings[3][trait]) end
  end
  return text ~= '' and text or nil
end

-- The same after an update of some fields (false: cleared); `rs` = what it says itself, false: not any more.
function demands.after(run, item, fields)
  local own, as = fields.rs, {}
  if own == nil and (item.ro or fields.y == nil and fields.g == nil and fields.q == nil) then return item.rs end
  for _, name in ipairs({'y', 'g', 'q'}) do as[name] = fields[name] == nil and item[name] or fields[name] end
  return demands.of(run, as, own or nil)
end

-- Whether anybody may want what this call has given back, a list of demands.
function demands.are_wanted(run, given_back)
  local capacities = demands.limits(run)
  for _, text in ipairs(given_back) do
    for _, node in ipairs(demands.nodes_of(text)) do
      local all, here = counted(run, text, node[1])
      local own = node[2] + node[3] > 0
      if here > 0 or all > 0 and (own or capacities[node[1]]) then return true end
    end
  end
  return false
end

return demands
