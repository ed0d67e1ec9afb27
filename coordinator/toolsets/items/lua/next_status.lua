--[[
purpose:   Reads what decides an item's next transition: its role, what its schema depends on, its unsatisfied blockers.
guarantee: One consistent view. Edges (an item has 600 at most) are read only if a blocker is unsatisfied and the role
           can move forward.
args:      id
reply:     {role, whether a blocked item has a role to return to, schema inputs without notes,
           blockers {id, role, needed role}}
errors:    NOT_FOUND
--]]
-- @include graph
-- @include notes
local item = load_item(id)
if not item then return redis.error_reply('FLEET NOT_FOUND') end
local blockers = item.nb and item.role < TERMINAL and unsatisfied_blockers(item) or {}
return cmsgpack.pack({item.role, not not item.pr, schema_inputs(item, ''), blockers})
