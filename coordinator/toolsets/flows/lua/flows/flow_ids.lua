--[[
purpose:   Lists the ids of flows within a range, newest first, for clients that complete ids.
guarantee: O(log n + most) for each set.
args:      lowest highest most sets...
           sets = status letters, or 'u' .. creator hashed; most = how many ids to list
reply:     {ids, whether there are more}
errors:    none
--]]
local read = require 'read'

return function(run, lowest, highest, most, sets)
  return read(run, function()
    local found = {}
    most = tonumber(most)
    for _, set in ipairs(sets) do
      local key = string.sub(set, 1, 1) == 'u' and run.keys.owned .. string.sub(set, 2) or run.keys.flows .. set
      local ids = redis.call('ZREVRANGEBYSCORE', key, highest, lowest, 'LIMIT', 0, most + 1)
      for _, id in ipairs(ids) do found[#found + 1] = id end
    end
    -- Ids have the same number of digits.
    table.sort(found, function(one, other) return one > other end)
    local more = #found > most
    while #found > most do found[#found] = nil end
    return {found, more}
  end)
end
