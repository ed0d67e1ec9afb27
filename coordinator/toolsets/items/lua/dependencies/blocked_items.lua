--[[
purpose:   Finds which of the given items are blocked, by their role or by unsatisfied dependencies, with the blockers.
guarantee: Ends after about 200 edges; the caller continues from there. Items that no longer exist or are no
           longer blocked are left out.
args:      cursor details with_ancestors ids
           cursor = position in the first item's edges, '0' from their beginning; details and
           with_ancestors = 1 or 0; ids = packed list
reply:     {ids finished, cursor in the next one, list of Blocked (store/blocked.py)}; an item with many edges is listed
           page by page
errors:    none
--]]
local classes = require 'classes'
local graph = require 'graph'
local items = require 'items'
local read = require 'read'
local views = require 'views'

local BLOCKED, TERMINAL = classes.BLOCKED, classes.TERMINAL

local EDGES_MAX, PAGE = 200, 200

-- Returns the next cursor, the blockers on one page of an item's edges (including satisfied ones), and how many edges
-- were read.
local function blocker_page(run, id, cursor)
  local next_cursor, flat = graph.edge_page(run, id, cursor, PAGE)
  local list = {}
  for n = 1, #flat, 2 do
    local field, value = flat[n], flat[n + 1]
    if graph.blocked_by_other(string.sub(field, 1, 1)) then
      local title, role = unpack(views.head(run, string.sub(field, 2)))
      local satisfied = graph.satisfies(role, graph.threshold_of(value))
      list[#list + 1] = {field, title, role, string.sub(value, 33, 33), satisfied}
    end
  end
  return next_cursor, list, #flat / 2
end

return function(run, cursor, details, with_ancestors, ids)
  return read(run, function()
    local list, finished, reply, left = cmsgpack.unpack(ids), 0, {}, EDGES_MAX
    while finished < #list and left > 0 do
      local item, looked_at = items.load(run, list[finished + 1]), 0
      local blockers
      if item and (item.role == BLOCKED or item.role ~= TERMINAL and item.nb) then
        cursor, blockers, looked_at = blocker_page(run, item.id, cursor)
        local said, ancestors = views.said(run, item), with_ancestors == '1' and views.ancestors(run, item.pa) or {}
        said.t, said.s = items.title_of(run, item), details == '1' and items.text_of(run, item, 's') or nil
        reply[#reply + 1] = {item.id, item.role, said, ancestors, blockers}
      else
        cursor = '0'
      end
      left = left - looked_at
      if cursor == '0' then finished = finished + 1 end
    end
    return {finished, cursor, reply}
  end)
end
