--[[
purpose:   A worker renews the lease of its states, and says what has become of them.
guarantee: A state that another worker has by now, or under another number, is left alone.
args:      worker lease_ms told...
           lease_ms = 0 gives the lease up; told = connection, state, number, what, idle_ms, and so on; what = busy:
           calls are under way; idle: none is; used: the last one has just ended; end: it is over; over: its run has
           ended, whichever worker has it
reply:     which of them are not its own any more, from 1
errors:    none
full:      it overwrites a few numbers; without it, states would be lost
--]]
local states = require 'states'

return function(run, worker, lease_ms, told)
  local gone, kept = {}, false
  for n = 1, #told, 5 do
    local connection, state, number, what, idle_ms = unpack(told, n, n + 4)
    local present, owner = states.of(run, connection, state)
    local until_ms = states.used(run, connection, state) or 0
    local used = math.min(until_ms, run.now)
    local own = present == number and owner == worker
    if what == 'over' then
      if present == number and until_ms <= run.now then states.drop(run, connection, state) end
      own = false
    elseif own and (what == 'end' or what == 'idle' and used + idle_ms <= run.now) then
      states.drop(run, connection, state)
      own = false
    end
    if own then
      kept = true
      local busy, now = what == 'busy' and run.now + lease_ms, what == 'used' and run.now
      states.use(run, connection, state, busy or now or used)
    else
      gone[#gone + 1] = (n + 4) / 5
    end
  end
  if lease_ms == '0' then
    states.give_up(run, worker)
  elseif kept then
    states.renew(run, worker, lease_ms)
  end
  return gone
end
