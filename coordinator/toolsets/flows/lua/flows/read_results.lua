--[[
purpose:   Reads the results of finished steps of a flow.
guarantee: Changes nothing.
args:      id wanted...
           wanted = keys of steps
reply:     {number, key, status, result as JSON, its length or false}, for each that has ended
errors:    none
--]]
local read = require 'read'

return function(run, id, wanted)
  return read(run, function()
    local asked, found = {}, {}
    for _, key in ipairs(wanted) do asked[key] = true end
    for _, packed in ipairs(redis.call('LRANGE', run.keys.history .. id, 0, -1)) do
      local number, key, status, _, _, _, _, result = unpack(cmsgpack.unpack(packed))
      if asked[key] then found[#found + 1] = {number, key, status, result} end
    end
    return found
  end)
end
