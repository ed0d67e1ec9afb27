--[[
purpose:   Restores notes of another store as they were.
guarantee: A note appears completely, with its id and dates, or not at all; one under a key that an item has is left as
           it is, so a call can be repeated.
args:      request run.events_max run.terms run.config run.labels list
           list = packed list of {id, item, key, role letter, body, whether filled, actor, verification, created,
           modified (ms), format or ''}
reply:     how many were written
errors:    REQUEST_ID_REUSED UNSETTLED
--]]
local change = require 'change'
local notes = require 'notes'

return function(run, request, list)
  return change(run, request, {}, function()
    local written = 0
    for _, note in ipairs(cmsgpack.unpack(list)) do
      local there = redis.call('EXISTS', run.keys.item .. note[2]) == 1
      if there and notes.restore(run, note) then written = written + 1 end
    end
    return {written}
  end)
end
