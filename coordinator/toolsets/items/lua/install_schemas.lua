--[[
purpose:   Installs a version of the note schemas for the project's scripts.
guarantee: The version is stored completely or not at all; installing it again only renews its time to live.
args:      version keep_seconds fields...
           fields = field and value in turn, as include/schema.lua describes
reply:     number of fields
errors:    none
--]]
-- @include keys
redis.call('HSET', K_SCHEMAS .. version, unpack(fields))
redis.call('EXPIRE', K_SCHEMAS .. version, keep_seconds)
return cmsgpack.pack(#fields / 2)
