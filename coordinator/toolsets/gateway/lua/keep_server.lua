--[[
purpose:   The tools of a downstream server, as one process has found them, for every front-end of the fleet.
guarantee: What was asked for later stays, unless that is later than it is now. A change is told on the channel of
           servers.
args:      connection asked tools
           asked = when the server was asked, Unix milliseconds; tools = as JSON, '' = nothing is imported from it
reply:     whether that is what is known now
errors:    none
--]]
-- @include keys
-- @include clock
local last = tonumber(redis.call('HGET', K_GATE_SERVER_TIMES, connection) or 0)
-- A time to come is that of a clock which was put back since: it would keep what is new out until it has come.
if last > tonumber(asked) and last <= server_time() then return 0 end
local before = redis.call('HGET', K_GATE_SERVERS, connection) or ''
if tools == '' then
  redis.call('HDEL', K_GATE_SERVERS, connection)
  redis.call('HDEL', K_GATE_SERVER_TIMES, connection)
else
  redis.call('HSET', K_GATE_SERVERS, connection, tools)
  redis.call('HSET', K_GATE_SERVER_TIMES, connection, asked)
end
if tools ~= before then redis.call('PUBLISH', 'fc:gate:servers', connection) end
return 1
