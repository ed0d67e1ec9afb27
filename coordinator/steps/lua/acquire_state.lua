--[[
purpose:   A worker that is to call a server which keeps a state acquires that state.
guarantee: One worker has a state at a time, under a number that no state has had before, also if the server has lost
           its last writes. Where there are `most` states, the one idle longest goes, but none with a call under way.
args:      connection state worker have most idle_ms lease_ms
           have = the number of the state as the worker has it, 0: it has none; most = states of the connection at
           most; idle_ms = after how long without a call a state ends
reply:     {number, worker}; number 0: the worker that has it, or '' if there is no room
errors:    none
owns:      state_number
--]]
local clock = require 'clock'
local states = require 'states'

-- Number and worker of a state whose worker lives and which was used lately; nil: there is none, or no more.
local function live(run, connection, state, worker, idle_ms)
  local number, owner = states.of(run, connection, state)
  if not number then return nil end
  local ends = owner ~= worker and redis.call('ZSCORE', run.keys.state_leases, owner)
  local leased = owner == worker or tonumber(ends or 0) > run.now
  if leased and (states.used(run, connection, state) or 0) + idle_ms > run.now then return number, owner end
  states.drop(run, connection, state)
end

-- Makes room for one more state; returns whether there is.
local function make_room(run, connection, worker, most, idle_ms)
  for _, state in ipairs(redis.call('HKEYS', run.keys.state_owners .. connection)) do
    live(run, connection, state, worker, idle_ms)
  end
  if redis.call('HLEN', run.keys.state_owners .. connection) < most then return true end
  local longest, used = unpack(redis.call('ZRANGE', run.keys.state_uses .. connection, 0, 0, 'WITHSCORES'))
  if not used or tonumber(used) > run.now then return false end
  states.drop(run, connection, longest)
  return true
end

return function(run, connection, state, worker, have, most, idle_ms, lease_ms)
  local number, owner = live(run, connection, state, worker, idle_ms)
  if owner and owner ~= worker then return {'0', owner} end
  if not owner and not make_room(run, connection, worker, tonumber(most), idle_ms) then return {'0', ''} end
  if not number or number ~= have then
    number = clock.whole(math.max(run.now, tonumber(redis.call('GET', run.keys.state_number) or 0) + 1))
    redis.call('SET', run.keys.state_number, number)
    states.assign(run, connection, state, number, worker)
  end
  states.use(run, connection, state, run.now + lease_ms)
  states.renew(run, worker, lease_ms)
  return {number, worker}
end
