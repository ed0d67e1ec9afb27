--[[
purpose:   Reads the rows of items, for lists that people read.
guarantee: One consistent snapshot; items that do not exist are left out. The caller sends at most 100.
args:      ids
           ids = packed list
reply:     {now, list of ItemRow (store/boards/rows.py)}
errors:    none
--]]
local read = require 'read'
local rows = require 'rows'

return function(run, ids)
  return read(run, function() return {run.now, rows.of_all(run, cmsgpack.unpack(ids))} end)
end
