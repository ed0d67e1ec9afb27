--[[
purpose:   Tells which commands the Redis user of this connection may not run.
guarantee: Changes nothing.
args:      commands...
reply:     those that are denied, or that the server does not know
errors:    none
--]]
local read = require 'read'

return function(run, commands)
  return read(run, function()
    local denied = {}
    for _, command in ipairs(commands) do
      local first = command == 'XINFO' and 'STREAM' or run.keys.prefix -- its only use; permitted by subcommand
      local known, allowed = pcall(redis.acl_check_cmd, command, first, run.keys.prefix)
      if not (known and allowed) then denied[#denied + 1] = command end
    end
    return denied
  end)
end
