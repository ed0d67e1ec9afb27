--[[
purpose:   Puts expired claims back and hands the items to parked callers. A process with parked calls runs it when the
           earliest claim expires, and at least once a second to register as alive.
guarantee: Bounded: at most 100 claims a run.
args:      events_max process alive_ms
reply:     when the earliest live claim expires (ms), 0 if there is none; now; whether the process was
           still registered as alive, else its parked calls may have been dropped
errors:    none
full:      it removes what has expired
--]]
-- @include clock
-- @include settle
local now = server_time()
local known = redis.call('EXISTS', K_ALIVE .. process) == 1
redis.call('SET', K_ALIVE .. process, '1', 'PX', alive_ms)
if settle_debts(now) then
  sweep_claims(now, events_max, 100)
  serve_waiters(now, events_max)
else
  has_debts = true -- the rest of this script pays on
end
local earliest = redis.call('ZRANGE', K_LEASES, 0, 0, 'WITHSCORES')[2]
return with_debts(cmsgpack.pack({tonumber(earliest) or 0, now, known}))
