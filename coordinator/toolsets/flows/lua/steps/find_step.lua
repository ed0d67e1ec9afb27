--[[
purpose:   Finds the flow that a step's id belongs to.
guarantee: Changes nothing. A flow owns its id and the reserved ids after it.
args:      step
reply:     the flow's id, or '': unknown
errors:    none
--]]
return function(run, step)
  local found = 0
  for _, status in ipairs({'r', 'p', 'c', 'f', 'x'}) do
    local id = redis.call('ZREVRANGEBYSCORE', run.keys.flows .. status, step, '-inf', 'LIMIT', 0, 1)[1]
    found = math.max(found, tonumber(id or 0))
  end
  if found == 0 then return '' end
  local id = string.format('%.0f', found)
  local reserved = tonumber(redis.call('HGET', run.keys.run .. id, 'k') or 0)
  return tonumber(step) > found and tonumber(step) <= found + reserved and id or ''
end
