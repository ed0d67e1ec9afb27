-- @include batch
-- @include events
-- Notes: one hash each, and per item one with an entry for each note, which is all that a gate has to read. A key is
-- unique per item; writing it again keeps id and creation time.
--   K_NOTE   i item  k key  r role letter  b body  c created  m modified (ms)  a actor  v verification
--   K_NOTES  key -> entry: note id (32 characters) .. role letter .. '1' if the body is not blank, else '0'

-- note = {item, key, role letter, body, filled, actor, verification, id for a new one}; returns the id.
local function store_note(note, now)
  local item_id, key, role, body, filled, actor, verification, fresh = unpack(note)
  local entry = redis.call('HGET', K_NOTES .. item_id, key)
  local id = entry and string.sub(entry, 1, 32) or fresh
  redis.call('HSET', K_NOTES .. item_id, key, id .. role .. (filled and '1' or '0'))
  local time = whole(now)
  redis.call(
    'HSET', K_NOTE .. id,
    'i', item_id, 'k', key, 'r', role, 'b', body, 'm', time, 'a', actor, 'v', verification
  )
  redis.call('HSETNX', K_NOTE .. id, 'c', time)
  return id
end

-- The same for notes of items that have none yet, under keys that differ.
local function store_first_notes(list, now, events_max)
  local entries, time = {}, whole(now) -- entries by item: keys and entries in turn
  for _, note in ipairs(list) do
    local item_id, key, role, body, filled, actor, verification, id = unpack(note)
    local of_item = get_or_add_list(entries, item_id)
    of_item[#of_item + 1], of_item[#of_item + 2] = key, id .. role .. (filled and '1' or '0')
    redis.call(
      'HSET', K_NOTE .. id,
      'i', item_id, 'k', key, 'r', role, 'b', body, 'm', time, 'a', actor, 'v', verification, 'c', time
    )
    emit(events_max, 'note', item_id, 'n', key)
  end
  for item_id, of_item in pairs(entries) do call_in_parts('HSET', K_NOTES .. item_id, of_item) end
end

-- Every {key, filled} of an item, and what its schema depends on: {type, tags, traits, notes}.
local function schema_inputs(item, config)
  local notes = {}
  if config ~= '' then
    local flat = redis.call('HGETALL', K_NOTES .. item.id)
    for n = 1, #flat, 2 do notes[#notes + 1] = {flat[n], string.sub(flat[n + 1], 34, 34) == '1'} end
  end
  return {item.y or false, item.g or false, item.q or false, notes}
end
