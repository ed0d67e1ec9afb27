--[[
purpose:   Tells which commands the Redis user of this connection may not run.
guarantee: Changes nothing.
args:      commands...
reply:     those that are denied, or that the server does not know
errors:    none
--]]
local denied = {}
for _, command in ipairs(commands) do
  local known, allowed = pcall(redis.acl_check_cmd, command, KEYS[1], KEYS[1])
  if not (known and allowed) then denied[#denied + 1] = command end
end
return cmsgpack.pack(denied)
