--[[
purpose:   Applies trigger-based transitions in turn, each with its cascades.
guarantee: Each element is atomic: ownership, fence, dependencies and gates are checked in the step that changes
           the item, including cascades. The first `start` of an agent that took over an abandoned item begins
           its work again: the item keeps its role, and the start is recorded.
args:      request run.events_max run.terms run.config run.labels changes
           labels = packed {trigger -> label}; changes = packed
           {id, trigger, trusted actor id or '', actor, verification, summary, fence or 0, result: {text, '' or 'json',
           id for a new note} or false, what was used, for `usage.add`}; the last two may be missing
reply:     list of Advanced (rules/transitions.py). If the first transitions change items with very many edges or tags,
           it ends early; the caller sends the rest
errors:    REQUEST_ID_REUSED CONFIG_UNKNOWN UNSETTLED
--]]
local blockers = require 'blockers'
local change_by_schema = require 'change_by_schema'
local index = require 'index'
local triggers = require 'triggers'

local EDGES_AT_ONCE = blockers.EDGES_AT_ONCE

local LOOKED_FOR_MAX = 10 -- items of one call whose edges are looked for
local TAG_ENTRIES_MAX = 500 -- index entries of tags and types that one call writes for moved items

-- What to look for (absence.lua): the edges of the items of `list`, if these are few, as mostly there are none.
local function looked_for(run, list)
  local waiting, owed = run.keys.waiting, run.keys.owed
  local set = {waiting, owed, [waiting] = true, [owed] = true}
  for n, element in ipairs(#list <= LOOKED_FOR_MAX and list or {}) do
    local key = run.keys.edges .. element[1]
    set[n + 2], set[key] = key, true
  end
  return set
end

-- Whether what has been done is enough for one call.
local function is_enough(run)
  return blockers.edges_visited(run) > EDGES_AT_ONCE or index.tag_entries_written(run) > TAG_ENTRIES_MAX
end

return function(run, request, changes)
  local list = cmsgpack.unpack(changes)
  return change_by_schema(run, request, {looks_for = looked_for(run, list)}, function()
    local results = {}
    for n, element in ipairs(list) do
      if n > 1 and is_enough(run) then break end
      results[n] = triggers.advance(run, unpack(element))
    end
    return results
  end)
end
