-- `change` of an operation that decides by the schemas of items, which the caller's configuration names.
-- owns: none
local change = require 'change'
local schemas = require 'schemas'

return function(run, request, options, body)
  return change(run, request, options, function(progress)
    if schemas.is_missing(run) then return redis.error_reply('FLEET CONFIG_UNKNOWN') end
    return body(progress)
  end)
end
