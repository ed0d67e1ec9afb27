--[[
purpose:   Deletes notes by id, then all notes of an item, or its note under a key.
guarantee: A note is deleted together with its entry at the item. Repeated notes count once.
args:      request run.events_max run.terms ids item key
           ids = packed list; item = id or ''; key = '' for all notes of the item
reply:     {deleted, positions of unknown ids}
errors:    REQUEST_ID_REUSED UNSETTLED
full:      deleting frees memory
--]]
local batch = require 'batch'
local change = require 'change'
local item_events = require 'item_events'
local notes = require 'notes'

-- Notes to delete, in the table `found`: seen = set of their ids; ids = these in order; by_item = by item the keys
-- under which it has them.
local function add(run, found, id, item, key)
  if found.seen[id] then return end
  found.seen[id] = true
  found.ids[#found.ids + 1] = id
  table.insert(batch.list_in(found.by_item, item), key)
  item_events.emit_of(run, 'unnote', item, 'n', key)
end

-- Adds the notes with these ids; returns the positions of unknown ones.
local function add_by_id(run, found, ids)
  local unknown = {}
  for n, id in ipairs(ids) do
    local item, key = unpack(redis.call('HMGET', run.keys.note .. id, 'i', 'k'))
    if item then add(run, found, id, item, key) else unknown[#unknown + 1] = n - 1 end
  end
  return unknown
end

-- Adds the note of an item under a key, or all of its notes for ''.
local function add_of_item(run, found, item, key)
  local flat
  if key ~= '' then
    local entry = redis.call('HGET', run.keys.notes .. item, key)
    flat = entry and {key, entry} or {}
  else
    flat = redis.call('HGETALL', run.keys.notes .. item)
  end
  for n = 1, #flat, 2 do add(run, found, string.sub(flat[n + 1], 1, 32), item, flat[n]) end
end

return function(run, request, ids, item, key)
  return change(run, request, {}, function()
    local found = {seen = {}, ids = {}, by_item = {}}
    local unknown = add_by_id(run, found, cmsgpack.unpack(ids))
    if item ~= '' then add_of_item(run, found, item, key) end
    notes.remove(run, found.ids, found.by_item)
    return {#found.ids, unknown}
  end)
end
