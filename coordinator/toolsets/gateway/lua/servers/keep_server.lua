--[[
purpose:   Stores the tool list of a downstream server for all front-ends of the fleet.
guarantee: The list that was requested last wins; request times in the future are ignored. A change is
           published on the channel of servers.
args:      connection asked tools
           asked = when the server was asked, Unix milliseconds; tools = as JSON, '' = nothing is imported from it
reply:     whether this list is the stored one now
errors:    none
owns:      gate_servers gate_server_times
--]]
return function(run, connection, asked, tools)
  local last = tonumber(redis.call('HGET', run.keys.gate_server_times, connection) or 0)
  -- A request time in the future comes from a clock that was set back since. It would block newer lists until then.
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
