--[[
purpose:   Lists checkpoints that were answered, the last one first.
guarantee: Changes nothing. Reads at most `limit`.
args:      after limit
           after = the entry of the last one of the page before, '' for the first
reply:     {entry after which the next page begins or '', rows {session, workflow, activity, checkpoint, agent
           that asked, how it was answered, option or '', who has answered, via or '', entry, when}}
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
