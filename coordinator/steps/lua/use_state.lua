--[[
purpose:   Notes that an owner is about to use a state, under the number that this has.
guarantee: An owner that has used the same connection under another number is told once, before its call is made: by one
           step, however often this asks.
args:      owner connection number anew step again
           owner = the run, or a caller, that remembers; anew = 1: whatever it remembers; again = 1: the step may have
           been told without anybody having heard of it
reply:     0 it was another number, 1 the same, 2 the owner remembered none
errors:    none
owns:      state_seen
--]]
local owners = require 'owners'

local KEPT_MS = 30 * 86400000

return function(run, owner, connection, number, anew, step, again)
  local there, own, field = redis.call('EXISTS', run.keys.run .. owner) == 1, run.keys.state_seen .. owner, connection
  if there then field = 'st:' .. connection end
  local known = redis.call('HGET', there and run.keys.run .. owner or own, field)
  local seen, told = string.match(known or '', '^(%d+) ?(.*)$')
  local first = not seen or anew == '1'
  local now = first and number or number .. ' ' .. step
  if there and seen ~= number then
    owners.set(run, owner, field, now)
  elseif not there then
    if seen ~= number then redis.call('HSET', own, field, now) end
    redis.call('PEXPIRE', own, KEPT_MS)
  end
  if seen == number and (again == '0' or told ~= step) then return 1 end
  return first and 2 or 0
end
