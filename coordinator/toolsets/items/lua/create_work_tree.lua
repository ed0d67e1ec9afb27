--[[
purpose:   Creates a root, its children, edges between them and notes on them.
guarantee: All or nothing: the only thing that can fail, the parent, is looked at before anything is
           written. Cycles cannot come up, since all edges are between new items; the caller has checked
           those and worked out levels and blocker counts.
args:      request fingerprint keep_ms events_max config labels specs edges notes
           specs = packed list of specs (include/create.lua), root first; edges = packed list of
           {id, from, to, code, mark}; notes = packed list (include/notes.lua)
reply:     {reason or '', depth of the root, item ids, edge ids, notes {id, item, key, role letter}}
errors:    REQUEST_ID_REUSED CONFIG_UNKNOWN
--]]
-- @include clock
-- @include idempotency
-- @include create
-- @include notes
-- @include serve

local stored, _, refused = recall(request, fingerprint)
if refused then return refused end
if stored then return {stored} end
if config_missing(config) then return redis.error_reply('FLEET CONFIG_UNKNOWN') end

local items, deepest = cmsgpack.unpack(specs), MAX_DEPTH
local run = {now = server_time(), cap = events_max, config = config, labels = labels, all_new = all_new(items)}

-- The root's depth, or nil and why the tree cannot stand there.
local function place(parent_id)
  if parent_id == '' then return 0 end
  local parent = load(parent_id)
  if not parent then return nil, absent(parent_id) end
  local depth = parent.d + 1
  if depth > deepest or (depth == deepest and #items > 1) then return nil, 'too_deep' end
  return depth
end

local depth, reason = place(items[1][2])
local reply = {reason or '', depth or 0, {}, {}, {}}
if depth then
  for n, spec in ipairs(items) do
    create(spec, run)
    reply[3][n] = spec[1]
  end
  rank_made()
  local links, texts = cmsgpack.unpack(edges), cmsgpack.unpack(notes)
  store_edges(links)
  for n, edge in ipairs(links) do
    emit(run.cap, 'link', edge[2], 'o', edge[3], 'c', edge[4])
    reply[4][n] = edge[1]
  end
  store_first_notes(texts, run.now)
  for n, note in ipairs(texts) do
    reply[5][n] = {note[8], note[1], note[2], note[3]}
    emit(run.cap, 'note', note[1], 'n', note[2])
  end
end
serve(run.now, events_max)
return remember(request, fingerprint, 'D', cmsgpack.pack(reply), keep_ms)
