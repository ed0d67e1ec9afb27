--[[
purpose:   Lists the processes that run.
guarantee: Changes nothing.
args:      seconds
           seconds = how long a process counts as running without telling so again
reply:     {<host>/<slot>}...
errors:    none
--]]
-- @include keys
local from = redis.call('TIME')[1] - seconds
return cmsgpack.pack(redis.call('ZRANGE', K_PROCESSES, '(' .. from, '+inf', 'BYSCORE'))
