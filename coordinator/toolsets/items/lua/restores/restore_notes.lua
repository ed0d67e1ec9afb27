--[[
purpose:   Restores notes of another store as they were.
guarantee: A note appears completely, with its id and dates, or not at all; one under a key that an item has is left as
           it is, so a call can be repeated.
args:      request run.events_max run.terms run.config run.labels list
           list = packed list of {id, item, key, role letter, body, whether filled, actor, verification, created,
           modified (ms), format or ''}
reply:     how many were written
errors:    REQUEST_ID_REUSED UNSETTLED
writes:    item text ranked beneath owed leases agents agent_attempts apart demands resources passed_over reserved usage
           usage_ranked spent_budgets spent_ended holds lapsed abandoned retries backoffs postponed due recurring
           occurrences quarantined notes note request events transitions waiting wanted queue waiter alive messages
--]]
local change = require 'change'
local clock = require 'clock'
local item_events = require 'item_events'
local notes = require 'notes'

local RESULT = notes.RESULT

-- Stores a note; returns whether it is new, and its item is there.
local function restore(run, note)
  local id, item_id, key, role, body, filled, actor, verification, created, modified, format = unpack(note)
  if redis.call('EXISTS', run.keys.item .. item_id) == 0 then return false end
  local entry = id .. role .. (filled and '1' or '0')
  if redis.call('HSETNX', run.keys.notes .. item_id, key, entry) == 0 then return false end
  redis.call(
    'HSET', run.keys.note .. id, 'i', item_id, 'k', key, 'r', role, 'b', body, 'm', clock.whole(modified),
    'a', actor, 'v', verification
  )
  if created < modified then redis.call('HSET', run.keys.note .. id, 'c', clock.whole(created)) end
  if key == RESULT and format ~= '-' then redis.call('HSET', run.keys.note .. id, 'f', format) end
  item_events.emit_of(run, 'note', item_id, 'n', key)
  return true
end

return function(run, request, list)
  return change(run, request, {}, function()
    local written = 0
    for _, note in ipairs(cmsgpack.unpack(list)) do
      if restore(run, note) then written = written + 1 end
    end
    return {written}
  end)
end
