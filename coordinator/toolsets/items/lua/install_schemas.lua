--[[
purpose:   Makes a version of the note schemas known to the project's scripts.
guarantee: The version is there whole or not at all; installing it again only renews its time to live.
args:      version keep_seconds fields
           fields = packed list of {field, value} as include/schema.lua describes
reply:     number of fields
errors:    none
--]]
-- @include keys
local key, flat = K_SCHEMAS .. version, {}
for _, field in ipairs(cmsgpack.unpack(fields)) do
  flat[#flat + 1] = field[1]
  flat[#flat + 1] = field[2]
end
redis.call('HSET', key, unpack(flat))
redis.call('EXPIRE', key, keep_seconds)
return cmsgpack.pack(#flat / 2)
