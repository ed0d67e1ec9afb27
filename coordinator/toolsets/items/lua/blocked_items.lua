--[[
purpose:   Finds which of some items are blocked, by their role or by an unsatisfied dependency, and by what.
guarantee: Ends when about 200 edges were read; the caller goes on from there. Items that no longer exist or are no
           longer blocked are left out.
args:      cursor details ancestors ids
           cursor = where the first item's edges go on, '0' from their beginning; details and
           ancestors = 1 or 0; ids = packed list
reply:     {ids finished, cursor in the next one, list of {id, title, role, priority, complexity, summary,
           tags, ancestors, blockers (include/pages.lua)}}; one with many edges is listed page by page
errors:    none
--]]
-- @include pages
-- @include ancestors

local BUDGET, PAGE = 200, 200
local list, finished, reply, left = cmsgpack.unpack(ids), 0, {}, BUDGET
while finished < #list and left > 0 do
  local item, blockers, seen = load_item(list[finished + 1]), {}, 0
  if item and (item.role == BLOCKED or item.role ~= TERMINAL and item.nb) then
    cursor, seen = blocker_page(item.id, cursor, PAGE, blockers)
    reply[#reply + 1] = {
      item.id, title_of(item), item.role, priority_of(item.score), complexity_of(item.score),
      details == '1' and (text_of(item, 's') or '') or false, details == '1' and item.g or false,
      ancestors == '1' and ancestors_of(item) or {}, blockers,
    }
  else
    cursor = '0'
  end
  left = left - seen
  if cursor == '0' then finished = finished + 1 end
end
return cmsgpack.pack({finished, cursor, reply})
