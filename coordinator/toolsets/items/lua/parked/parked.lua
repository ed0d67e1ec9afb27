-- How parked claims are stored. A waiter has the id of its request; those with one selector queue in order of arrival:
--   queue     queue: ids by order of arrival
--   arrivals  how many have arrived
--   waiter    p processes that hold the call (retries may be on several), concatenated  a agent  t ttl ms
--               u until (ms)  f fingerprint  k keep ms  r packed releases  q queue  w packed places
--               i what to include (claim_parts.lua), or ''  us packed, what was used for the item, if anything
--   waiting   queues by when the last call of each ends
--   wanted    place: queue -> when its last call ends (ms, 13 digits) .. selector (packed)
-- All these keys expire some time after their calls, so dead processes leave none.
-- owns: waiting wanted queue arrivals waiter
local batch = require 'batch'
local clock = require 'clock'

local parked = {}

-- Removes requests from a queue. If it is empty then, removes the queue from its places (packed, nil if unknown).
function parked.remove(run, ids, queue, places)
  local keys = {}
  for n, id in ipairs(ids) do keys[n] = run.keys.waiter .. id end
  batch.call('ZREM', run.keys.queue .. queue, ids)
  batch.call_keys('DEL', keys)
  if places and redis.call('EXISTS', run.keys.queue .. queue) == 0 then
    redis.call('ZREM', run.keys.waiting, queue)
    for _, place in ipairs(cmsgpack.unpack(places)) do parked.forget_selector(run, place, queue) end
  end
end

-- Removes the selector of a queue from a place.
function parked.forget_selector(run, place, queue)
  redis.call('HDEL', run.keys.wanted .. place, queue)
end

-- Appends a request to its queue.
function parked.append(run, queue, id)
  redis.call('ZADD', run.keys.queue .. queue, redis.call('INCR', run.keys.arrivals), id)
end

-- Keeps a key until `ends` at least.
local function extend_expiry(run, key, ends)
  if redis.call('PTTL', key) < ends - run.now then redis.call('PEXPIREAT', key, clock.whole(ends)) end
end

-- Registers a selector at its places, and its queue, until `ends` (ms) at least.
function parked.extend_queue(run, queue, packed_selector, places, ends)
  redis.call('ZREMRANGEBYSCORE', run.keys.waiting, '-inf', run.now)
  if (tonumber(redis.call('ZSCORE', run.keys.waiting, queue)) or 0) >= ends then return end
  redis.call('ZADD', run.keys.waiting, ends, queue)
  redis.call('PEXPIREAT', run.keys.queue .. queue, clock.whole(ends))
  extend_expiry(run, run.keys.waiting, ends)
  for _, place in ipairs(places) do
    redis.call('HSET', run.keys.wanted .. place, queue, clock.whole(ends) .. packed_selector)
    extend_expiry(run, run.keys.wanted .. place, ends)
  end
end

-- Writes fields of a waiter, names and values in turn, and keeps it until `ends` (ms; nil: as long as before).
function parked.write(run, id, fields, ends)
  redis.call('HSET', run.keys.waiter .. id, unpack(fields))
  if ends then redis.call('PEXPIREAT', run.keys.waiter .. id, clock.whole(ends)) end
end

return parked
