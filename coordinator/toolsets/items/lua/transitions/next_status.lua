--[[
purpose:   Reads the inputs of an item's next transition: role, schema inputs, unsatisfied blockers.
guarantee: A consistent snapshot. Edges (an item has 600 at most) are read only if a blocker is unsatisfied and the role
           can move forward.
args:      id
reply:     NextStatus (store/next.py)
errors:    NOT_FOUND
--]]
local graph = require 'graph'
local items = require 'items'
local notes = require 'notes'
local read = require 'read'

return function(run, id)
  return read(run, function()
    local item = items.load(run, id)
    if not item then return redis.error_reply('FLEET NOT_FOUND') end
    local inputs = notes.schema_inputs(run, item, true)
    local blockers = graph.unsatisfied_blockers_ahead(run, item)
    return {item.role, item.pr ~= nil, inputs, blockers, item.rc ~= nil, tonumber(item.nv) or 0, run.now}
  end)
end
