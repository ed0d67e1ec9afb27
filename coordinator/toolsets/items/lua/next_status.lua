--[[
purpose:   What decides an item's next transition: its role, what its schema depends on, its unsatisfied blockers.
guarantee: One consistent view. Edges, of which an item has 600 at most, are read only where a blocker is
           unsatisfied and the role can move forward.
args:      id
reply:     {role, whether a blocked item has a role to return to, schema inputs without notes,
           blockers {id, role, needed role}}
errors:    NOT_FOUND
--]]
-- @include graph
-- @include notes
local it = load(id)
if not it then return redis.error_reply('FLEET NOT_FOUND') end
local blockers = it.nb and it.role < TERMINAL and unsatisfied(it) or {}
return cmsgpack.pack({it.role, not not it.pr, schema_inputs(it, ''), blockers})
