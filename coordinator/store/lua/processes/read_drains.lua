--[[
purpose:   Reads the drains in force.
guarantee: Reads one small hash.
args:      none
reply:     rows {scope, since ms}
errors:    none
--]]
local drains = require 'drains'
local read = require 'read'

return function(run)
  return read(run, drains.rows)
end
