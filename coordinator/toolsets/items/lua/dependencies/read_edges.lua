--[[
purpose:   Reads the dependency edges of several items and, within the budget, of items reached from there by
           blocking edges.
guarantee: Ends after about 500 edges or 100 items.
args:      cursor follow ids known
           cursor = position in the first item's edges, '0' from their beginning; follow = 1 or 0;
           ids = packed list; known = packed list of items not to be followed to
reply:     {items of `ids` finished, cursor in the next one, list of {id, {field, value, field, value ...}}};
           items that do not exist are finished and not listed, one of `ids` with many edges is listed
           page by page, a followed one only if one page holds its edges
errors:    none
--]]
local graph = require 'graph'
local read = require 'read'

local EDGES_MAX, ITEMS_MAX, PAGE = 500, 100, 200

-- Appends the new items that blocking edges lead to.
local function follow_edges(flat, list, seen)
  for n = 1, #flat, 2 do
    local code, other = string.sub(flat[n], 1, 1), string.sub(flat[n], 2)
    if code ~= 'R' and code ~= 'r' and not seen[other] then
      seen[other] = true
      list[#list + 1] = other
    end
  end
end

return function(run, cursor, follow, ids, known)
  return read(run, function()
    local list, reply, at, left = cmsgpack.unpack(ids), {}, 1, EDGES_MAX
    local given, seen = #list, {}
    if follow == '1' then
      for _, id in ipairs(list) do seen[id] = true end
      for _, id in ipairs(cmsgpack.unpack(known)) do seen[id] = true end
    end
    while at <= #list and at <= ITEMS_MAX and left > 0 do
      local id, flat = list[at], {}
      if at > given then cursor = '0' end
      if redis.call('EXISTS', run.keys.item .. id) == 1 then
        cursor, flat = graph.edge_page(run, id, cursor, PAGE)
        if at <= given or cursor == '0' then reply[#reply + 1] = {id, flat} end
        if follow == '1' then follow_edges(flat, list, seen) end
      else
        cursor = '0'
      end
      left = left - #flat / 2
      if cursor == '0' or at > given then at = at + 1 end
    end
    local finished = math.min(at - 1, given)
    return {finished, finished < given and cursor or '0', reply}
  end)
end
