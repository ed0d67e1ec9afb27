--[[
purpose:   Lists the processes that run, with what each last reported of itself.
guarantee: Changes nothing. At most 1000 processes, those noted last.
args:      seconds
           seconds = how long a process counts as running after it was noted
reply:     {now, rows {<host>/<slot>, when it was noted (s), its status or ''}}
errors:    none
--]]
local read = require 'read'

local MOST = 1000

return function(run, seconds)
  return read(run, function()
    local since, rows = math.floor(run.now / 1000) - seconds, {}
    local found = redis.call(
      'ZRANGE', run.keys.processes, '+inf', '(' .. since, 'BYSCORE', 'REV', 'LIMIT', 0, MOST, 'WITHSCORES'
    )
    for n = 1, #found, 2 do
      local status = redis.call('GET', run.keys.process_status .. found[n])
      rows[#rows + 1] = {found[n], tonumber(found[n + 1]), status or ''}
    end
    return {run.now, rows}
  end)
end
