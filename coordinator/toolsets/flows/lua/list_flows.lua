--[[
purpose:   One page of flows, newest first.
guarantee: Changes nothing. Reads `limit` rows at most, from each of the sets that are asked for.
args:      before limit every sets...
           before = only lower ids, '+inf' for all; sets = status letters, or 'u' .. creator hashed; every = 1: flows
           that are in all of the sets are wanted, so only the smallest is read
reply:     {id, name, status, creator, created at if not the id, ended at, why, parent} for each; '' for none
errors:    none
--]]
-- @include keys
local ids, found, least = {}, {}, math.huge
for n, set in ipairs(sets) do
  local key = string.sub(set, 1, 1) == 'u' and K_OWNED .. string.sub(set, 2) or K_FLOWS .. set
  if every == '1' then
    local size = redis.call('ZCARD', key)
    if size < least then found, least = {key}, size end
  else
    found[n] = key
  end
end
for _, key in ipairs(found) do
  for _, id in ipairs(redis.call('ZREVRANGEBYSCORE', key, before, '-inf', 'LIMIT', 0, limit)) do
    ids[#ids + 1] = id
  end
end
table.sort(ids, function(one, other) return tonumber(one) > tonumber(other) end)
local rows = {}
for n = 1, math.min(#ids, tonumber(limit)) do
  local row = {ids[n]}
  for at, value in ipairs(redis.call('HMGET', K_RUN .. ids[n], 'n', 's', 'u', 't', 'e', 'x', 'm')) do
    row[at + 1] = value or ''
  end
  rows[n] = row
end
return cmsgpack.pack(rows)
