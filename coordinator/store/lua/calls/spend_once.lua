--[[
purpose:   Spends something that may be used once, such as the ticket of a sign-in.
guarantee: Of any number of callers that spend the same, one gets 1, and none after it has ended by this server's time.
args:      id ends kept
           ends = when it ends, in ms; kept = for how many ms after that it is remembered
reply:     1 if it is the caller's now, else 0
errors:    none
owns:      spent
full:      a short text, which lets an operator in
--]]
return function(run, id, ends, kept)
  local left = tonumber(ends) - run.now
  if left <= 0 then return 0 end
  local milliseconds = string.format('%d', math.ceil(left) + tonumber(kept))
  return redis.call('SET', run.keys.spent .. id, '1', 'NX', 'PX', milliseconds) and 1 or 0
end
