--[[
purpose:   One page of flows, newest first.
guarantee: Changes nothing. Reads at most `limit` rows from each set.
args:      before limit every sets...
           before = only lower ids, '+inf' for all; sets = status letters, or 'u' .. creator hashed; every = 1: only
           flows in all of the sets, so only the smallest set is read
reply:     for each what _row (store/flows.py) takes, '' for none
errors:    none
--]]
local read = require 'read'

local FIELDS = {'n', 's', 'u', 't', 'e', 'x', 'm'}

-- The keys of the sets to read.
local function keys_of(run, sets, every)
  local found, least = {}, math.huge
  for n, set in ipairs(sets) do
    local key = string.sub(set, 1, 1) == 'u' and run.keys.owned .. string.sub(set, 2) or run.keys.flows .. set
    if every then
      local size = redis.call('ZCARD', key)
      if size < least then found, least = {key}, size end
    else
      found[n] = key
    end
  end
  return found
end

local function newer(one, other)
  return tonumber(one) > tonumber(other)
end

return function(run, before, limit, every, sets)
  return read(run, function()
    local ids, rows = {}, {}
    for _, key in ipairs(keys_of(run, sets, every == '1')) do
      for _, id in ipairs(redis.call('ZREVRANGEBYSCORE', key, before, '-inf', 'LIMIT', 0, limit)) do
        ids[#ids + 1] = id
      end
    end
    table.sort(ids, newer)
    for n = 1, math.min(#ids, tonumber(limit)) do
      local row, values = {ids[n]}, redis.call('HMGET', run.keys.run .. ids[n], unpack(FIELDS))
      for at, value in ipairs(values) do row[at + 1] = value or '' end
      rows[n] = row
    end
    return rows
  end)
end
