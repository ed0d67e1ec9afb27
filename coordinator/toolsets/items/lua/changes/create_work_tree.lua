--[[
purpose:   Creates a root, its children, edges between them and notes on them.
guarantee: All or nothing: only the parent check can fail, and it precedes all writes. Very many notes become a
           debt, which is settled before any item is changed. There are no cycles: all edges are between new
           items, and the caller has checked them and computed levels and blocker counts. Ids rise, so the items
           keep their order.
args:      request run.events_max run.terms run.config run.labels specs edges noted first_notes...
           specs = packed list of specs (creation.lua), root first; edges = packed list of
           {id, from, to, code, mark}; first_notes = the notes in the form of debts (debts.lua), in several
           parts if there are very many or long ones; noted = text for the reply
reply:     TreeReply (store/trees.py)
errors:    REQUEST_ID_REUSED CONFIG_UNKNOWN UNSETTLED
--]]
local change_by_schema = require 'change_by_schema'
local creation = require 'creation'
local debts = require 'debts'
local graph = require 'graph'
local item_events = require 'item_events'
local items = require 'items'
local notes = require 'notes'
local requirements = require 'requirements'
local serve = require 'serve'

local MAX_DEPTH = items.MAX_DEPTH

local ITEMS_MANY = 50 -- above this, offering the items to parked calls becomes a debt

-- The root's depth, or nil and why the parent cannot take the tree.
local function root_depth(run, parent_id)
  if parent_id == '' then return 0 end
  local parent = items.load(run, parent_id)
  if not parent then return nil, items.absence_reason(parent_id) end
  local depth = parent.depth + 1
  if depth >= MAX_DEPTH then return nil, 'too_deep' end -- the root's children need room below it
  return depth
end

-- Creates the items; returns their ids.
local function create_all(run, specs)
  local ids = {}
  creation.begin(run, specs)
  for n, spec in ipairs(specs) do
    creation.create(run, spec, run.now)
    ids[n] = spec[1]
  end
  creation.index_new(run)
  if #specs > ITEMS_MANY then serve.offer_later(run) end
  return ids
end

-- Stores the edges; returns their ids and marks.
local function link_all(run, edges)
  local ids = {}
  graph.store(run, edges)
  for n, edge in ipairs(edges) do
    item_events.emit_of(run, 'link', edge[2], 'o', edge[3], 'c', edge[4])
    ids[n] = {edge[1], edge[5]}
  end
  return ids
end

-- Stores the notes, or records them as a debt if they come in several parts.
local function note_all(run, parts)
  if #parts == 1 then
    notes.store_first(run, cmsgpack.unpack(parts[1])[3])
  elseif parts[1] then
    debts.store(run, parts)
  end
end

return function(run, request, specs, edges, noted, first_notes)
  return change_by_schema(run, request, {}, function()
    local list = cmsgpack.unpack(specs)
    local depth, reason = root_depth(run, list[1][2])
    if depth and not requirements.have_room(run, list) then depth, reason = nil, 'too_many_requirements' end
    if not depth then return {reason, 0, {}, {}, noted}, false end
    local item_ids = create_all(run, list)
    local edge_ids = link_all(run, cmsgpack.unpack(edges))
    note_all(run, first_notes)
    return {'', depth, item_ids, edge_ids, noted}
  end)
end
