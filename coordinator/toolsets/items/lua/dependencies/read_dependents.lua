--[[
purpose:   Reads the dependents of some items.
guarantee: A consistent snapshot; for an unknown id, exists is false and the list is empty.
args:      ids
           ids = packed list
reply:     list of {id, exists, ids of items that it blocks}
errors:    none
--]]
local graph = require 'graph'
local items = require 'items'
local read = require 'read'

return function(run, ids)
  return read(run, function()
    local reply = {}
    for n, id in ipairs(cmsgpack.unpack(ids)) do
      local blocked = {}
      graph.each_edge(run, id, function(code, other)
        if graph.blocks_other(code) then blocked[#blocked + 1] = other end
      end)
      reply[n] = {id, items.load(run, id) ~= nil, blocked}
    end
    return reply
  end)
end
