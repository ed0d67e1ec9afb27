--[[
purpose:   Names projects that have something to sweep.
guarantee: Changes nothing.
args:      seconds
           seconds = only those noted within so many, 0: all
reply:     their names
errors:    none
--]]
-- @include keys
local from = tonumber(seconds) > 0 and redis.call('TIME')[1] - seconds or '-inf'
return cmsgpack.pack(redis.call('ZRANGEBYSCORE', K_STEP_PROJECTS, from, '+inf'))
