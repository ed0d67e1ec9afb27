--[[
purpose:   Deletes items, with `recursive` their subtrees, deepest first, a bounded number per run.
guarantee: An item is deleted only if it has no children, so nothing is ever orphaned, even if others add items
           meanwhile. If it has very many edges, some of these are deleted before it. If a run ends early, the progress
           is recorded, so any process can go on from there. An id that is listed twice counts once.
args:      request fingerprint keep_ms events_max recursive budget ids state
           recursive = 1 or 0, ids = packed list, state = packed progress of the last run or ''
reply:     {done, position, deleted, descendants, failures {position, reason, children}, met {id}, ids}
           ids = the list to go on with, empty when done
errors:    REQUEST_ID_REUSED UNSETTLED
full:      deleting frees memory
--]]
-- @include clock
-- @include idempotency
-- @include erase
-- @include settle

local stored, phase, refused = recall(request, fingerprint)
if refused then return refused end
if stored and phase == 'D' then return {stored} end
if stored then state = stored end
local now = server_time()
if not settle_debts(now) then return redis.error_reply('FLEET UNSETTLED') end

local list = cmsgpack.unpack(ids)
local done, position, deleted, below, failures, met = false, 1, 0, 0, {}, {}
-- The list comes from the state too: prefixes of items that are gone by now cannot be resolved again.
if state ~= '' then done, position, deleted, below, failures, met, list = unpack(cmsgpack.unpack(state)) end
local listed, gone = {}, {}
for _, id in ipairs(list) do listed[id] = true end
for _, id in ipairs(met) do gone[id] = true end
local left = tonumber(budget)

-- Removes the item; false when the budget ends first.
local function remove(item)
  local gone_now, more
  repeat
    gone_now, more = erase_item(item, events_max)
    left = left - (gone_now and 1 or 0) - more * 0.6
  until gone_now or left <= 0
  if not gone_now then return false end
  deleted = deleted + 1
  if listed[item.id] then
    met[#met + 1] = item.id
    gone[item.id] = true
  else
    below = below + 1
  end
  return true
end

-- Removes the subtree, what is deepest first; false when the budget ends first.
local function remove_subtree(id)
  for _, child in ipairs(redis.call('ZRANGE', K_RANKED .. 'p' .. id, 0, math.ceil(left))) do
    if left <= 0 or not remove_subtree(child) then return false end
  end
  if left <= 0 then return false end
  return remove(load_item(id))
end

while position <= #list and left > 0 do
  local id = list[position]
  local item = load_item(id)
  if not item then
    if not gone[id] then failures[#failures + 1] = {position, absence_reason(id), 0} end
    position = position + 1
  elseif recursive ~= '1' and first_child(id) then
    failures[#failures + 1] = {position, 'has_children', count_children(id)}
    position = position + 1
  elseif remove_subtree(id) then
    position = position + 1
  end
end

done = position > #list
if done then -- what was refused for its children may have been listed once more after them
  local refusals = failures
  failures = {}
  for _, refusal in ipairs(refusals) do
    if not gone[list[refusal[1]]] then failures[#failures + 1] = refusal end
  end
end
unindex_erased()
if redis.call('EXISTS', K_RANKED .. '*') == 0 then redis.call('DEL', K_FORM) end
local reply = cmsgpack.pack({done, position, deleted, below, failures, met, done and {} or list})
serve_waiters(now, events_max)
return with_debts(remember(request, fingerprint, done and 'D' or 'P', reply, keep_ms))
