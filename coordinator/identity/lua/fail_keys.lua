--[[
purpose:   Notes that a source of keys failed.
guarantee: The copy of its last good keys stays. When a source begins to fail, one event for the whole fleet is written.
args:      source label trouble kind rest_ms keep_ms run.events_max
           rest_ms = for how long nobody may ask the source
reply:     the time, Unix milliseconds
errors:    none
--]]
local key_copies = require 'key_copies'

return function(run, source, label, trouble, kind, rest_ms, keep_ms)
  key_copies.fail(run, source, label, trouble, kind, rest_ms, keep_ms)
  return run.now
end
