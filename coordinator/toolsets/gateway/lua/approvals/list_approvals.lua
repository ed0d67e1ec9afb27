--[[
purpose:   Lists approvals, the last one first: open ones by when they were asked for, or closed ones by when they were.
guarantee: Changes nothing. Reads at most `limit`.
args:      closed after limit
           closed = 1: those that were answered or withdrawn; after = the position of the page before, '' for the first
reply:     ApprovalPage (store/audit.py)
errors:    none
--]]
local approvals = require 'approvals'
local read = require 'read'
local recent = require 'recent'

return function(run, closed, after, limit)
  return read(run, function()
    local list = closed == '1' and run.keys.gate_answered or run.keys.gate_asked
    local entries, position = recent.page(list, {0}, after, tonumber(limit))
    local rows = {}
    for _, entry in ipairs(entries) do
      local row = approvals.row(run, entry.id)
      if row then
        row[#row + 1] = entry.id
        rows[#rows + 1] = row
      end
    end
    return {run.now, position, rows}
  end)
end
