--[[
purpose:   Installs a version of the note schemas in a project.
guarantee: The version is stored atomically; installing it again only renews its TTL.
args:      version keep_seconds fields...
           fields = field and value in turn, as schemas.lua describes
reply:     number of fields
errors:    none
owns:      schemas
full:      deletions need it, and it is small
--]]
return function(run, version, keep_seconds, fields)
  redis.call('HSET', run.keys.schemas .. version, unpack(fields))
  redis.call('EXPIRE', run.keys.schemas .. version, keep_seconds)
  return cmsgpack.pack(#fields / 2)
end
