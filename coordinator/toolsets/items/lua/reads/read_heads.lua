--[[
purpose:   Reads the heads of items that other items refer to. The caller sends bounded slices.
guarantee: A consistent snapshot; items that do not exist are left out.
args:      ids
           ids = packed list
reply:     list of Head (rules/dependencies/graph.py)
errors:    none
--]]
local read = require 'read'
local views = require 'views'

return function(run, ids)
  return read(run, function()
    local reply = {}
    for _, id in ipairs(cmsgpack.unpack(ids)) do
      local head = views.head(run, id)
      if head then reply[#reply + 1] = {id, unpack(head)} end
    end
    return reply
  end)
end
