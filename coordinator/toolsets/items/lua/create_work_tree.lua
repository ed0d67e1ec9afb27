--[[
purpose:   Creates a root, its children, edges between them and notes on them.
guarantee: All or nothing: the parent is the only thing that can fail, and it is checked before anything is written.
           Very many notes become a debt, which is settled before any item is changed. There can be no cycles: all
           edges are between new items, and the caller has checked them and computed levels and blocker counts. It
           makes the ids rise, so the items stay in their order.
args:      request fingerprint keep_ms events_max config labels specs edges noted notes...
           specs = packed list of specs (include/create.lua), root first; edges = packed list of
           {id, from, to, code, mark}; notes = the notes in the form of debts (include/debts.lua), in several parts
           if there are very many or long ones; noted = text for the reply
reply:     {reason or '', depth of the root, item ids, edge ids, noted}
errors:    REQUEST_ID_REUSED CONFIG_UNKNOWN UNSETTLED
--]]
-- @include clock
-- @include idempotency
-- @include create
-- @include settle

local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return {stored} end
if config_missing(config) then return redis.error_reply('FLEET CONFIG_UNKNOWN') end

local items, now = cmsgpack.unpack(specs), server_time()
local run = {
  now = now, created = now, events_max = events_max, config = config, labels = labels, all_new = all_new(items),
}
-- First what is owed: a parent that reopens may be handed out.
if not settle_debts(run.now) then return redis.error_reply('FLEET UNSETTLED') end

-- The root's depth, or nil and why the tree cannot stand there.
local function root_depth(parent_id)
  if parent_id == '' then return 0 end
  local parent = load_item(parent_id)
  if not parent then return nil, absence_reason(parent_id) end
  local depth = parent.d + 1
  if depth >= MAX_DEPTH then return nil, 'too_deep' end -- below it there must be room for children (seed 004)
  return depth
end

local depth, reason = root_depth(items[1][2])
local reply = {reason or '', depth or 0, {}, {}, noted}
if depth then
  for n, spec in ipairs(items) do
    create_item(spec, run)
    reply[3][n] = spec[1]
  end
  index_new_items(events_max)
  local links = cmsgpack.unpack(edges)
  store_edges(links)
  for n, edge in ipairs(links) do
    emit(run.events_max, 'link', edge[2], 'o', edge[3], 'c', edge[4])
    reply[4][n] = edge[1]
  end
  if #notes == 1 then
    store_first_notes(cmsgpack.unpack(notes[1])[3], run.now, run.events_max)
  elseif notes[1] then
    store_debts(notes)
  end
end
if #items > 50 then hand_overs = HAND_OVERS_MAX end -- the run is long enough: to be offered is owed
serve_waiters(run.now, events_max)
return with_debts(remember(request, fingerprint, 'D', cmsgpack.pack(reply), keep_ms))
