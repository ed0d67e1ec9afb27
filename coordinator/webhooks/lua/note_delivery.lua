--[[
purpose:   Notes how an attempt at a delivery ended, or that events up to a position are not for the webhook.
guarantee: Changes nothing unless the process leads. The position moves only with success. A webhook that says that
           it is gone is disabled, and one that has failed for so long without any success.
args:      run.events_max what process milliseconds name outcome cursor first delay head reason most
           outcome = delivered, passed, failed or gone; cursor, first = the new position (delivered, passed);
           delay = ms until the next attempt; head = time of the event that waits, in ms; reason = in words;
           most = ms of failures alone after which it is disabled
reply:     _Held (records.py)
errors:    none
full:      a record is small, and a delivery that is not noted is made again
--]]
local clock = require 'clock'
local leader_leases = require 'leader_leases'
local webhooks = require 'webhooks'

local function disable(run, name, why)
  webhooks.write(run, name, 'st', 'disabled', 'w', why)
  webhooks.tell(run, 'webhook.disabled', name)
end

local function failed(run, name, delay, head, reason)
  local key = webhooks.key(run, name)
  local since = tonumber(redis.call('HGET', key, 'fs') or run.now)
  webhooks.write(run, name, 'fs', clock.whole(since), 'at', clock.whole(run.now + delay), 'h', head, 'e', reason,
    'ea', clock.whole(run.now))
  webhooks.count_failure(run, name)
  return run.now - since
end

return function(run, what, process, milliseconds, name, outcome, cursor, first, delay, head, reason, most)
  local leads = leader_leases.take(run, what, process, milliseconds)
  if leads then
    if outcome == 'delivered' or outcome == 'passed' then
      webhooks.write(run, name, 'c', cursor, 'f', first)
      if outcome == 'delivered' then
        webhooks.recovered(run, name)
        webhooks.write(run, name, 'ok', clock.whole(run.now))
      end
    else
      local active = redis.call('HGET', webhooks.key(run, name), 'st') == 'active'
      local ms = failed(run, name, delay, head, reason)
      if active and (outcome == 'gone' or ms >= tonumber(most)) then
        disable(run, name, outcome == 'gone' and 'gone' or 'failing')
      end
    end
  end
  return cmsgpack.pack({leads, webhooks.record(run, name)})
end
