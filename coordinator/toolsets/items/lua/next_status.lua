--[[
purpose:   What decides an item's next transition: its role, what its schema depends on, its blockers.
guarantee: One consistent view of an item with up to a hundred edges; more are read page by page.
           Edges are read only where a blocker is unsatisfied and the role can move forward.
args:      id cursor
           cursor = where the item's edges go on, '0' from their beginning
reply:     {role, whether a blocked item has a role to return to, schema inputs without notes, cursor,
           blockers (include/pages.lua)}
errors:    NOT_FOUND
--]]
-- @include pages
-- @include notes
local PAGE = 200
local it = load(id)
if not it then return redis.error_reply('FLEET NOT_FOUND') end
local blockers, at = {}, '0'
if it.nb and it.role < TERMINAL then at = blocker_page(id, cursor, PAGE, blockers) end
return cmsgpack.pack({it.role, not not it.pr, schema_inputs(it, ''), at, blockers})
