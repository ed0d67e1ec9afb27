-- The record of a webhook: where it is in the feed of its project, and how its deliveries go.
-- owns: webhook
local clock = require 'clock'
local fleet_events = require 'fleet_events'

local webhooks = {}

local KEPT_MS = 30 * 24 * 3600 * 1000

-- In the order of the reply: project, cursor, first entry after a gap, status, why it is disabled, failing since,
-- attempts that failed in a row, no attempt before, time of the event that waits, last error, when that was, last
-- success, the sealed secret and the sealed earlier ones.
local FIELDS = {'p', 'c', 'f', 'st', 'w', 'fs', 'n', 'at', 'h', 'e', 'ea', 'ok', 'k', 'kp'}
local NUMBERS = {fs = true, n = true, at = true, h = true, ea = true, ok = true}

function webhooks.key(run, name)
  return run.keys.webhook .. name
end

-- The record as it is in replies: the fields in order, then the server's time.
function webhooks.record(run, name)
  local record = redis.call('HMGET', webhooks.key(run, name), unpack(FIELDS))
  for n, field in ipairs(FIELDS) do
    record[n] = NUMBERS[field] and tonumber(record[n] or 0) or record[n] or ''
  end
  record[#record + 1] = run.now
  return record
end

-- Writes fields and values in turn; the record is kept for 30 days from now.
function webhooks.write(run, name, ...)
  redis.call('HSET', webhooks.key(run, name), ...)
  redis.call('PEXPIRE', webhooks.key(run, name), clock.whole(KEPT_MS))
end

-- Makes the record unless there is one for this project. One that is paused stays so.
function webhooks.begin(run, name, project)
  local key = webhooks.key(run, name)
  if redis.call('HGET', key, 'p') == project then return end
  local status = redis.call('HGET', key, 'st')
  redis.call('HDEL', key, 'c', 'f', 'w', 'fs', 'n', 'at', 'h', 'e', 'ea', 'ok')
  webhooks.write(run, name, 'p', project, 'st', status == 'paused' and status or 'active')
end

-- No failure counts any longer.
function webhooks.recovered(run, name)
  redis.call('HDEL', webhooks.key(run, name), 'w', 'fs', 'n', 'at', 'h', 'e', 'ea')
end

-- An attempt has failed.
function webhooks.count_failure(run, name)
  redis.call('HINCRBY', webhooks.key(run, name), 'n', 1)
end

function webhooks.tell(run, kind, name)
  fleet_events.add(run, run.events_max, kind, name)
end

return webhooks
