--[[
purpose:   Reads a session for people: its state, answered checkpoints, and a page of its trace.
guarantee: Changes nothing, and gives no token. Works while a checkpoint is pending; is not in the trace.
args:      sid before limit
           before = index of the event after the page, -1: the last page; limit = events at most
reply:     _View (store/listing.py), or {}: there is none
errors:    none
--]]
local listing = require 'listing'
local read = require 'read'

return function(run, sid, before, limit)
  return read(run, function()
    local row = listing.row(run, sid, listing.changed_at(run, sid))
    if not row then return {} end
    local version, left, base = unpack(redis.call('HMGET', run.keys.session .. sid, 'v', 'd', 'tb'))
    local trace = run.keys.session_trace .. sid
    base = tonumber(base or 0)
    local past = base + redis.call('LLEN', trace)
    local last = tonumber(before) < 0 and past or math.min(tonumber(before), past)
    local first = math.max(base, last - limit)
    local events = last > first and redis.call('LRANGE', trace, first - base, last - base - 1) or {}
    local answers = redis.call('HVALS', run.keys.session_answers .. sid)
    return {run.now, row, version, left and cmsgpack.unpack(left) or {}, answers, base, first, past, events}
  end)
end
