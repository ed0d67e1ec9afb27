--[[
purpose:   Reads what tells the signing keys of a project from those that the fleet has for others of its name.
guarantee: Reads one small hash.
args:      none
reply:     {salt, rows {id, secret}}: the salt of its keys, '' for none, and the keys of the stores that it comes from,
           as far as their time is not over
errors:    none
writes:    none
--]]
local read = require 'read'

return function(run)
  return read(run, function()
    local salt, rows, held = '', {}, redis.call('HGETALL', run.keys.project_keys)
    for n = 1, #held, 2 do
      local ends, secret = string.match(held[n + 1], '^(%d+):(%x+)$')
      if held[n] == 'salt' then
        salt = held[n + 1]
      elseif ends and tonumber(ends) > run.now then
        rows[#rows + 1] = {held[n], secret}
      end
    end
    return {salt, rows}
  end)
end
