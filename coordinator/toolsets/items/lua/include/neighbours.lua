-- @include graph
-- What stands next to an item in the graph, and the item's level in it (include/levels.lua).

local counted, known = {}, {} -- by id, what this run has read

-- How many edges of an item are stored.
local function edges_stored(id)
  local count = counted[id] or redis.call('HLEN', K_EDGES .. id)
  counted[id] = count
  return count
end

-- What an item blocks (1) and what blocks it (-1), as stored. Read once for all edges of a batch.
local function neighbours(id)
  if not known[id] then
    local blocked, blockers = {}, {}
    if counted[id] ~= 0 then
      each_edge(id, function(code, other)
        if blocks_other(code) then blocked[#blocked + 1] = other end
        if blocked_by_other(code) then blockers[#blockers + 1] = other end
      end)
    end
    known[id] = {[1] = blocked, [-1] = blockers}
  end
  return known[id]
end

-- 0 where none is stored.
local function load_level(id)
  return tonumber(redis.call('HGET', K_ITEM .. id, 'lv') or 0)
end

local function store_level(id, level)
  if level ~= 0 then
    redis.call('HSET', K_ITEM .. id, 'lv', level)
  else
    redis.call('HDEL', K_ITEM .. id, 'lv')
  end
end
