--[[
purpose:   Deletes edges by dependency id, by pair, or all of one item.
guarantee: Both ends of an edge are deleted and the blocked item's readiness is updated atomically. An item with
           very many edges takes several steps; progress is recorded, so any process can continue.
args:      request run.events_max run.terms mode first second codes before
           mode = id | pair | all; first, second = ids (second '' unless pair); codes = any of BIR;
           before = how many edges earlier steps have deleted
reply:     Unlinked (store/dependencies.py)
errors:    REQUEST_ID_REUSED UNSETTLED
full:      deleting frees memory
--]]
local change = require 'change'
local item_events = require 'item_events'
local items = require 'items'
local unlink = require 'unlink'

-- Removes edges (fields and values in turn) stored at an item; returns how many.
local function drop(run, id, edges)
  if not edges[1] then return 0 end
  unlink.remove(run, items.load(run, id), edges)
  for n = 1, #edges, 2 do
    item_events.emit_of(run, 'unlink', id, 'o', string.sub(edges[n], 2), 'c', string.sub(edges[n], 1, 1))
  end
  return #edges / 2
end

-- Removes the edges from one item to another with any of some codes.
local function drop_between(run, from, to, codes)
  local edges = {}
  for code in string.gmatch(codes, '.') do
    local value = redis.call('HGET', run.keys.edges .. from, code .. to)
    if value then edges[#edges + 1], edges[#edges + 2] = code .. to, value end
  end
  return drop(run, from, edges)
end

local function drop_dependency(run, id)
  local edge = redis.call('GET', run.keys.dependency .. id) -- code .. from .. to
  return edge and drop_between(run, string.sub(edge, 2, 33), string.sub(edge, 34), string.sub(edge, 1, 1)) or 0
end

return function(run, request, mode, first, second, codes, before)
  return change(run, request, {}, function(progress)
    local deleted, done = tonumber(before), true
    if progress then deleted, first, second = unpack(cmsgpack.unpack(progress)) end
    if mode == 'all' then
      deleted = deleted + drop(run, first, unlink.next_edges(run, first))
      done = redis.call('EXISTS', run.keys.edges .. first) == 0
    elseif mode == 'id' then
      deleted = deleted + drop_dependency(run, first)
    else
      deleted = deleted + drop_between(run, first, second, codes)
    end
    return {deleted, first, second, done}, done and 'D' or 'P'
  end)
end
