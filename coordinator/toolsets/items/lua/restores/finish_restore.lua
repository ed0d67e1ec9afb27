--[[
purpose:   Offers items that restore_items held back, once everything about them is there.
guarantee: An item is offered, waits for its dependencies or is quarantined, as it was. Others are left as they are, so
           a call can be repeated.
args:      request run.events_max run.terms run.config run.labels ends
           ends = packed list of {id, since when it is quarantined (ms; 0: it is not)}
reply:     {how many were let go}
errors:    REQUEST_ID_REUSED UNSETTLED
--]]
local change = require 'change'
local due_times = require 'due_times'
local held_back = require 'held_back'
local items = require 'items'

return function(run, request, ends)
  return change(run, request, {}, function()
    local done = 0
    for _, one in ipairs(cmsgpack.unpack(ends)) do
      local item = items.load(run, one[1])
      if item and held_back.is_restored(item) then
        if one[2] > 0 then
          held_back.quarantine_since(run, item, one[2])
        else
          held_back.let_go(run, item)
        end
        if item.rc then
          due_times.schedule(run, item, nil)
          items.save(run, item)
        end
        done = done + 1
      end
    end
    return {done}
  end)
end
