--[[
purpose:   Records up to where the audit was copied to a file.
guarantee: The position only rises: a copier that was replaced cannot set it back.
args:      position
           position = an entry's of the audit, milliseconds-number
reply:     nothing
errors:    none
owns:      gate_copied
full:      one position overwrites another; without it the same entries would be copied again and again
--]]
local function parse(position)
  local ms, number = string.match(position, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(number)
end

return function(run, position)
  local before = redis.call('GET', run.keys.gate_copied)
  if before then
    local ms, number = parse(position)
    local last_ms, last_number = parse(before)
    if ms < last_ms or ms == last_ms and number <= last_number then return true end
  end
  redis.call('SET', run.keys.gate_copied, position)
  return true
end
