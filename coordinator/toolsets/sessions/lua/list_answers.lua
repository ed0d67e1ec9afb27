--[[
purpose:   Lists checkpoints that were answered, the last one first.
guarantee: Changes nothing. Reads at most `limit`.
args:      after limit
           after = the entry of the last one of the page before, '' for the first
reply:     AnsweredPage (store/listing.py)
errors:    none
--]]
local answered = require 'answered'
local read = require 'read'

return function(run, after, limit)
  return read(run, function()
    local rows, following = answered.page(run, 'checkpoint', after, limit)
    return {following, rows}
  end)
end
