--[[
purpose:   Lists gates that were released, the last one first.
guarantee: Changes nothing. Reads at most `limit`.
args:      after limit
           after = the entry of the last one of the page before, '' for the first
reply:     {entry after which the next page begins or '', list of _ReleasedRow (store/gates.py)}
errors:    none
--]]
local answered = require 'answered'
local read = require 'read'

return function(run, after, limit)
  return read(run, function()
    local rows, following = answered.page(run, 'gate', after, limit)
    return {following, rows}
  end)
end
