--[[
purpose:   Counts one up.
guarantee: The same id counts once, and gets the same number again for `seconds`.
args:      id seconds
reply:     the number
errors:    none
owns:      counted counts
--]]
return function(run, id, seconds)
  local known = redis.call('GET', run.keys.counts .. id)
  if known then return tonumber(known) end
  local number = redis.call('INCR', run.keys.counted)
  redis.call('SET', run.keys.counts .. id, number, 'EX', seconds)
  return number
end
