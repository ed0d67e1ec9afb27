--[[
purpose:   The dependency edges of several items.
guarantee: At most about a thousand edges a run, whatever the items have.
args:      cursor ids
           cursor = where the first item's edges go on, '0' from their beginning; ids = packed list
reply:     {items finished, cursor in the next one, list of {id, {field, value, field, value ...}}}; items
           that do not exist are finished and not listed, one with many edges is listed page by page
errors:    none
--]]
-- @include pages

local BUDGET = 500
local list, finished, reply, left = cmsgpack.unpack(ids), 0, {}, BUDGET
while finished < #list and left > 0 do
  local id, flat = list[finished + 1], {}
  if redis.call('EXISTS', K_ITEM .. id) == 1 then
    cursor, flat = edge_page(id, cursor)
    reply[#reply + 1] = {id, flat}
  else
    cursor = '0'
  end
  left = left - 1 - #flat / 2
  if cursor == '0' then finished = finished + 1 end
end
return cmsgpack.pack({finished, cursor, reply})
