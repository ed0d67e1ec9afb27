--[[
purpose:   Puts expired claims back and hands the items to parked callers. Run by a process with parked
           calls when the earliest claim expires; also says that the process lives.
guarantee: Bounded: at most 100 claims a run.
args:      events_max process alive_ms
reply:     when the earliest live claim expires (ms), 0 when there is none; now; whether the process was
           known to live, else its parked calls may have been dropped
errors:    none
full:      what has expired is taken away
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
