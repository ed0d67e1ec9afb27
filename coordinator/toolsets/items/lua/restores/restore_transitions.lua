--[[
purpose:   Restores the history of role changes of another store.
guarantee: A transition keeps its entry, which has its time. One that is not after those that are there is left out, so
           a call can be repeated.
args:      request run.events_max run.terms run.config run.labels rows
           rows = packed list of {entry, row (item_events.lua)}, oldest first
reply:     {how many were written}
errors:    REQUEST_ID_REUSED UNSETTLED
--]]
local change = require 'change'
local item_events = require 'item_events'

return function(run, request, rows)
  return change(run, request, {}, function()
    local written = 0
    for _, one in ipairs(cmsgpack.unpack(rows)) do
      if item_events.restore_transition(run, one[1], cmsgpack.pack(one[2])) then written = written + 1 end
    end
    return {written}
  end)
end
