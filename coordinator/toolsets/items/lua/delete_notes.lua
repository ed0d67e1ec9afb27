--[[
purpose:   Deletes notes by id, then all notes of an item, or its note under a key.
guarantee: A note is deleted together with its mark on the item. A note that is listed twice counts once.
args:      request fingerprint keep_ms events_max ids item key
           ids = packed list; item = id or ''; key = '' for all notes of the item
reply:     {deleted, positions of unknown ids}
errors:    REQUEST_ID_REUSED UNSETTLED
full:      deleting frees memory
--]]
-- @include clock
-- @include idempotency
-- @include settle

local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return {stored} end
if not settle_debts(server_time()) then return redis.error_reply('FLEET UNSETTLED') end

local deleted, unknown, known = 0, {}, {}
local gone, entries = {}, {} -- keys in Redis of notes, and by item the keys under which it has them

local function drop(id, owner, name)
  if known[id] then return end
  known[id], deleted = true, deleted + 1
  gone[deleted] = K_NOTE .. id
  table.insert(get_or_add_list(entries, owner), name)
  emit(events_max, 'unnote', owner, 'n', name)
end

for n, id in ipairs(cmsgpack.unpack(ids)) do
  local found = redis.call('HMGET', K_NOTE .. id, 'i', 'k')
  if found[1] then drop(id, found[1], found[2]) else unknown[#unknown + 1] = n - 1 end
end

if item ~= '' and key ~= '' then
  local entry = redis.call('HGET', K_NOTES .. item, key)
  if entry then drop(string.sub(entry, 1, 32), item, key) end
elseif item ~= '' then
  local flat = redis.call('HGETALL', K_NOTES .. item)
  for n = 1, #flat, 2 do drop(string.sub(flat[n + 1], 1, 32), item, flat[n]) end
end
for owner, names in pairs(entries) do call_in_parts('HDEL', K_NOTES .. owner, names) end
call_in_parts('DEL', nil, gone)
return remember(request, fingerprint, 'D', cmsgpack.pack({deleted, unknown}), keep_ms)
