--[[
purpose:   Restores the history of role changes of another store.
guarantee: A transition keeps its entry, which has its time. One that is not after those that are there is left out, so
           a call can be repeated.
args:      request run.events_max run.terms run.config run.labels rows
           rows = packed list of {entry, row (history.lua)}, oldest first
reply:     {how many were written}
errors:    REQUEST_ID_REUSED UNSETTLED
--]]
local change = require 'change'
local history = require 'history'

return function(run, request, rows)
  return change(run, request, {}, function()
    local written = 0
    for _, one in ipairs(cmsgpack.unpack(rows)) do
      if history.restore(run, one[1], cmsgpack.pack(one[2])) then written = written + 1 end
    end
    return {written}
  end)
end
