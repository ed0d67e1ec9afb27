--[[
purpose:   A worker with free slots takes steps of any project from the queues that it serves.
guarantee: A step is leased to one worker at a time. A pointer whose step was taken, cancelled or given
           another attempt is thrown away. When nothing is left, the bells of these queues are still.
args:      engine want
           engine = see include/handoff.lua; want = how many at most
reply:     what include/take.lua says, no results
errors:    none
--]]
-- @include take
local to_relay = take(tonumber(want), 'queue')
if #taken + #plain_jobs < tonumber(want) then
  for _, list in ipairs(env.lists) do
    local bell = env.rq .. 'bell:' .. list
    redis.call('DEL', bell)
    -- No more pointers could be thrown away in one run: what is behind them has nobody wait for the next look.
    if redis.call('EXISTS', env.rq .. 'queue:' .. list) == 1 then redis.call('RPUSH', bell, 1) end
  end
end
return taken_reply({}, to_relay)
