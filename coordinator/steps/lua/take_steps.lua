--[[
purpose:   A worker with free slots takes steps of any project from the queues that it serves.
guarantee: A step is leased to one worker at a time. A pointer whose step was taken, cancelled or given
           another attempt is discarded. When nothing is left, the bells of these queues are silent.
args:      run.engine want
           engine = see handoff.lua; want = how many at most
reply:     Taken (store.py), packed, without results; then its specs
errors:    none
--]]
local pointers = require 'pointers'
local taking = require 'taking'

return function(run, want)
  local to_relay = taking.take(run, tonumber(want), 'queue')
  if #run.taken + #run.plain_jobs < tonumber(want) then
    for _, list in ipairs(run.env.lists) do pointers.silence_bell(run, list) end
  end
  return taking.reply(run, {}, to_relay)
end
