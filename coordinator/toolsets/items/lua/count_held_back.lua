--[[
purpose:   Counts the items that an agent without capabilities would be offered but for what holds them back, and the
           overdue ones.
guarantee: A consistent snapshot. At any number of items it looks at some hundreds: modules/held_counts.lua.
args:      run.terms
reply:     {counts by reason (modules/held_counts.lua), open items whose time to be done has passed}
errors:    none
writes:    none
--]]
local due_times = require 'due_times'
local held_counts = require 'held_counts'
local read = require 'read'

local NOBODY = ''

return function(run)
  return read(run, function() return {held_counts.of(run, {}, NOBODY), due_times.overdue(run)} end)
end
