--[[
purpose:   Lists the entries of the audit about one instance, the last one first, a page at a time.
guarantee: Changes nothing. One lookup for each entry: each names the one before it, so no other instances' are read.
args:      workflow from count
           from = the entry to begin with, '' for the last one; count = how many at most
reply:     OwnEntries (store/audit.py), with {entry, fields and values in turn} for each
errors:    none
--]]
local audit = require 'audit'
local read = require 'read'

return function(run, workflow, from, count)
  return read(run, function()
    local most = tonumber(count)
    local rows, before = audit.of_instance(run, workflow, from ~= '' and from or nil, most)
    local begins = before == audit.BEGINNING
    return {rows, before and not begins and #rows == most and before or '', begins}
  end)
end
