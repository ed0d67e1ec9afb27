--[[
purpose:   A worker with free slots takes steps of any project from the queues that it serves.
guarantee: A step is leased to one worker at a time. A pointer whose step was taken, cancelled or given
           another attempt is thrown away. When nothing is left, the bells of these queues are silent.
args:      engine want
           engine = see include/handoff.lua; want = how many at most
reply:     what include/take.lua says, no results
errors:    none
--]]
-- @include take
local to_relay = take(tonumber(want), 'queue')
if #taken + #plain_jobs < tonumber(want) then
  for _, list in ipairs(env.lists) do silence_bell(list) end
end
return taken_reply({}, to_relay)
