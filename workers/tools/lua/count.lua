--[[
purpose:   Counts one up.
guarantee: The same id counts once, and gets its number again for so many seconds.
args:      id seconds
reply:     the number
errors:    none
--]]
-- @include keys
local known = redis.call('GET', K_COUNTS .. id)
if known then return tonumber(known) end
local number = redis.call('INCR', K_COUNTED)
redis.call('SET', K_COUNTS .. id, number, 'EX', seconds)
return number
