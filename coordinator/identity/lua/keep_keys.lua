--[[
purpose:   Shares the keys that a source just gave with every process of the fleet.
guarantee: Replaces the copy as a whole; the source no longer counts as failing. One event for the whole fleet is
           written when keys are new, and one when a failing source has recovered.
args:      source label document rest_ms keep_ms run.events_max
           rest_ms = for how long nobody may ask the source
reply:     the time, Unix milliseconds
errors:    none
--]]
local key_copies = require 'key_copies'

return function(run, source, label, document, rest_ms, keep_ms)
  key_copies.keep(run, source, label, document, rest_ms, keep_ms)
  return run.now
end
