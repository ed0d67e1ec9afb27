--[[
purpose:   Lists sessions by their last change, the last one first.
guarantee: Changes nothing. Looks at no more than `limit` sessions; those that have expired are left out, so a page may
           be shorter.
args:      only_open after limit
           only_open = 1: only those with an open checkpoint; after = the position of the page before, '' for the first
reply:     SessionPage (store/listing.py)
errors:    none
--]]
local listing = require 'listing'
local read = require 'read'
local recent = require 'recent'

return function(run, only_open, after, limit)
  return read(run, function()
    local marks = only_open == '1' and {recent.MARK} or {0, recent.MARK}
    local entries, position = recent.page(run.keys.session_index, marks, after, tonumber(limit))
    local rows = {}
    for _, entry in ipairs(entries) do rows[#rows + 1] = listing.row(run, entry.id, entry.at) end
    return {run.now, position, rows}
  end)
end
