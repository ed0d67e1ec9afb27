--[[
purpose:   The tools of a downstream server, as one process has found them, for every front-end of the fleet.
guarantee: What was asked for later stays, unless that is later than it is now. A change is told on the channel of
           servers.
args:      connection asked tools
           asked = when the server was asked, Unix milliseconds; tools = as JSON, '' = nothing is imported from it
reply:     whether that is what is known now
errors:    none
writes:    gate_servers gate_server_times messages
--]]
return function(run, connection, asked, tools)
  local last = tonumber(redis.call('HGET', run.keys.gate_server_times, connection) or 0)
  -- A time to come is that of a clock which was put back since: it would keep what is new out until it has come.
  if last > tonumber(asked) and last <= run.now then return 0 end
  local before = redis.call('HGET', run.keys.gate_servers, connection) or ''
  if tools == '' then
    redis.call('HDEL', run.keys.gate_servers, connection)
    redis.call('HDEL', run.keys.gate_server_times, connection)
  else
    redis.call('HSET', run.keys.gate_servers, connection, tools)
    redis.call('HSET', run.keys.gate_server_times, connection, asked)
  end
  if tools ~= before then redis.call('PUBLISH', 'fc:gate:servers', connection) end
  return 1
end
