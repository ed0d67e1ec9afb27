--[[
purpose:   Counts the items that an agent without capabilities, or with those of a selector, would be offered but for
           what holds them back, and the overdue ones.
guarantee: A consistent snapshot. At any number of items it looks at some hundreds: held_counts.lua.
args:      run.terms packed_selector
           packed_selector = packed (selectors.lua)
reply:     {counts by reason (held_counts.lua), open items whose time to be done has passed}
errors:    none
--]]
local due_times = require 'due_times'
local held_counts = require 'held_counts'
local read = require 'read'

local NOBODY = ''

return function(run, packed_selector)
  local selector = cmsgpack.unpack(packed_selector)
  return read(run, function() return {held_counts.of(run, selector, NOBODY), due_times.overdue(run)} end)
end
