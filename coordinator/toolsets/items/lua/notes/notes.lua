-- Notes: one hash each, and per item one hash with an entry per note, which is all that a gate reads. A key is unique
-- per item; writing it again keeps id and creation time.
--   note   i item  k key  r role letter  b body  m modified (ms)  c created (ms; only if before that)  a actor
--          v verification  f of a result: 'json' if its body is JSON, '' if it is text
--   notes  key -> entry: note id (32 characters) .. role letter .. '1' if the body is not blank, else '0'
-- The result of an item is the note under RESULT.
-- owns: notes note
local batch = require 'batch'
local clock = require 'clock'
local item_events = require 'item_events'
local items = require 'items'

local notes = {}

local RESULT = 'result'
local NOTES_MAX = 500 -- per item, besides its result: they are deleted and listed with it

-- Writes the fields of a note, modified at a time (ms, nil: now); further ones may follow.
local function put(run, id, item_id, key, role, body, actor, verification, at, ...)
  redis.call(
    'HSET', run.keys.note .. id,
    'i', item_id, 'k', key, 'r', role, 'b', body, 'm', clock.whole(at or run.now), 'a', actor, 'v', verification, ...
  )
end

-- Stores a note {item, key, role letter, body, filled, actor, verification, id for a new one, when it must have been
-- modified (ms; 0: there must be none; false: whenever)}; returns its id.
local function store(run, note)
  local item_id, key, role, body, filled, actor, verification, fresh = unpack(note)
  local entry = redis.call('HGET', run.keys.notes .. item_id, key)
  local id = entry and string.sub(entry, 1, 32) or fresh
  redis.call('HSET', run.keys.notes .. item_id, key, id .. role .. (filled and '1' or '0'))
  local since = entry and redis.call('HGET', run.keys.note .. id, 'm')
  if since then redis.call('HSETNX', run.keys.note .. id, 'c', since) end
  put(run, id, item_id, key, role, body, actor, verification)
  if entry and key == RESULT then redis.call('HDEL', run.keys.note .. id, 'f') end
  return id
end

-- When the note was last modified, by its entry at the item.
local function modified_at(run, entry)
  return tonumber(redis.call('HGET', run.keys.note .. string.sub(entry, 1, 32), 'm'))
end

-- Why a note cannot be written, or nil.
function notes.problem(run, note)
  local item_id, key, expected = note[1], note[2], note[9]
  if not items.load(run, item_id) then return items.absence_reason(item_id) end
  local notes_key = run.keys.notes .. item_id
  local more = redis.call('HLEN', notes_key) - NOTES_MAX
  local full = more >= 0 and more >= redis.call('HEXISTS', notes_key, RESULT) and key ~= RESULT
  if full and redis.call('HEXISTS', notes_key, key) == 0 then return 'too_many_notes' end
  if not expected then return nil end
  local entry = redis.call('HGET', notes_key, key)
  if (entry and modified_at(run, entry) or 0) ~= expected then return 'note_changed' end
end

-- Stores a note, with its event. Returns its id; or nil, and why it cannot be written.
function notes.write(run, note)
  local item_id, key = note[1], note[2]
  local reason = notes.problem(run, note)
  if reason then return nil, reason end
  local id = store(run, note)
  item_events.emit_of(run, 'note', item_id, 'n', key)
  return id
end

-- Stores an item's result {text, '' or 'json', id for a new note}; the event of the transition tells of it.
function notes.store_result(run, item_id, role, result, author)
  local text, format, id = unpack(result)
  if redis.call('HSETNX', run.keys.notes .. item_id, RESULT, id .. role .. '1') == 1 then
    put(run, id, item_id, RESULT, role, text, author.actor, author.verification, nil, 'f', format)
  else
    id = store(run, {item_id, RESULT, role, text, true, author.actor, author.verification, id})
    redis.call('HSET', run.keys.note .. id, 'f', format)
  end
end

-- The same for a list of notes with different keys, of items without notes; with an event of each.
function notes.store_first(run, list)
  local entries = {} -- by item: keys and entries in turn
  for _, note in ipairs(list) do
    local item_id, key, role, body, filled, actor, verification, id = unpack(note)
    local of_item = batch.list_in(entries, item_id)
    of_item[#of_item + 1], of_item[#of_item + 2] = key, id .. role .. (filled and '1' or '0')
    put(run, id, item_id, key, role, body, actor, verification)
    item_events.emit_of(run, 'note', item_id, 'n', key)
  end
  for item_id, of_item in pairs(entries) do batch.call('HSET', run.keys.notes .. item_id, of_item) end
end

-- Stores a note of another store (as restore_notes.lua has it), if its item has none under the key. Returns whether it
-- did.
function notes.restore(run, note)
  local id, item_id, key, role, body, filled, actor, verification, created, modified, format = unpack(note)
  local entry = id .. role .. (filled and '1' or '0')
  if redis.call('HSETNX', run.keys.notes .. item_id, key, entry) == 0 then return false end
  put(run, id, item_id, key, role, body, actor, verification, modified)
  if created < modified then redis.call('HSET', run.keys.note .. id, 'c', clock.whole(created)) end
  if key == RESULT and format ~= '-' then redis.call('HSET', run.keys.note .. id, 'f', format) end
  item_events.emit_of(run, 'note', item_id, 'n', key)
  return true
end

-- Removes notes by their ids, with the entries of their items, {item -> keys}.
function notes.remove(run, ids, entries)
  local gone = {}
  for n, id in ipairs(ids) do gone[n] = run.keys.note .. id end
  for item_id, keys in pairs(entries) do batch.call('HDEL', run.keys.notes .. item_id, keys) end
  batch.call_keys('DEL', gone)
end

-- Removes the notes of an item that is deleted. Returns how many there were.
function notes.forget(run, item_id)
  local ids = redis.call('HVALS', run.keys.notes .. item_id)
  for n, entry in ipairs(ids) do ids[n] = string.sub(entry, 1, 32) end
  if ids[1] then redis.call('DEL', run.keys.notes .. item_id) end
  notes.remove(run, ids, {})
  return #ids
end

-- Whether the body of a note is not blank, from its entry at the item.
function notes.is_filled(entry)
  return string.sub(entry, 34, 34) == '1'
end

-- A note as NoteRow (store/notes.py), body '' without it; or nil.
function notes.load(run, id, with_body)
  local fields = {'i', 'k', 'r', 'c', 'm', 'a', 'v', 'f', with_body and 'b' or nil}
  local item, key, role, created, modified, actor, verification, format, body =
    unpack(redis.call('HMGET', run.keys.note .. id, unpack(fields)))
  if not item then return nil end
  created, modified = tonumber(created or modified), tonumber(modified)
  return {id, item, key, role, body or '', created, modified, actor, verification, format or ''}
end

-- The inputs of an item's schema, and {key, filled} of each note unless `without_notes`: {type, tags, traits, notes}.
function notes.schema_inputs(run, item, without_notes)
  local list = {}
  if run.config ~= '' and not without_notes then
    local flat = redis.call('HGETALL', run.keys.notes .. item.id)
    for n = 1, #flat, 2 do list[#list + 1] = {flat[n], notes.is_filled(flat[n + 1])} end
  end
  return {item.y or false, item.g or false, item.q or false, list}
end

notes.RESULT = RESULT

return notes
