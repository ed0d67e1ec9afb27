--[[
purpose:   Lists the sessions that are bound to a work item, one per workflow.
guarantee: Changes nothing.
args:      item
reply:     SessionPage (store/listing.py), the only one
errors:    none
--]]
local listing = require 'listing'
local read = require 'read'

return function(run, item)
  return read(run, function()
    local rows, seen = {}, {}
    for _, id in ipairs(redis.call('HVALS', run.keys.session_item .. item)) do
      if not seen[id] then rows[#rows + 1] = listing.row(run, id, listing.changed_at(run, id)) end
      seen[id] = true -- that of the workflow used last is there twice
    end
    table.sort(rows, function(a, b) return a[11] > b[11] or a[11] == b[11] and a[1] > b[1] end)
    return {run.now, '', rows}
  end)
end
