--[[
purpose:   Records how far the audit was copied to a file.
guarantee: It only goes on: a copier that was overtaken by its successor takes nothing back.
args:      position
           position = an entry's of the audit, milliseconds-number
reply:     nothing
errors:    none
full:      a position takes the place of another; without it what was copied would be copied again and again
--]]
-- @include keys
local function parts(id)
  local ms, number = id:match('^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(number)
end
local before = redis.call('GET', K_GATE_COPIED)
if before then
  local ms, number = parts(position)
  local last_ms, last_number = parts(before)
  if ms < last_ms or ms == last_ms and number <= last_number then return true end
end
redis.call('SET', K_GATE_COPIED, position)
return true
