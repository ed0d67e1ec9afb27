--[[
purpose:   Restores items of another store as they were, each atomically, and holds them back until finish_restore.
guarantee: Each item appears completely, with its id, dates and counts of attempts, or not at all; one that is there is
           left as it is, so a call can be repeated. Nobody is offered one before finish_restore.
args:      request run.events_max run.terms run.config run.labels specs
           config = ''; specs = packed list of {spec (creation.lua), created (ms), {field -> text} of further
           fields of the item, role changed at, modified at, fence (0: none), entry of its last transition or '',
           attempts as JSON or ''}
reply:     list of {'created', 'there' or the reason, id}
errors:    REQUEST_ID_REUSED UNSETTLED
--]]
local abandoned = require 'abandoned'
local attempts = require 'attempts'
local available = require 'available'
local change = require 'change'
local classes = require 'classes'
local creation = require 'creation'
local due_times = require 'due_times'
local held_back = require 'held_back'
local index = require 'index'
local items = require 'items'
local usage = require 'usage'

local CLASS_SIZE, TERMINAL = classes.CLASS_SIZE, classes.TERMINAL

-- Gives a new item the state that it had.
local function set_state(run, item, fields, role_changed_at, modified_at, fence, entry, list)
  for field, value in pairs(fields) do items.set(item, field, value) end
  items.set(item, 'role_changed_at', role_changed_at)
  items.set(item, 'modified_at', modified_at)
  items.set(item, 'last_entry', entry ~= '' and entry)
  item.fence = fence > 0 and fence or nil
  if item.role ~= TERMINAL then
    due_times.pause(run, item)
    held_back.restore(run, item)
  end
  local class = classes.unclaimed_class(item, item.role)
  items.set(item, 'score', item.score + (class - item.class) * CLASS_SIZE)
  index.set_class(run, item, class)
  abandoned.note(run, item)
  items.mark_changed(item, 'score')
  items.save(run, item)
  usage.restore(run, item)
  attempts.restore(run, item, list)
end

return function(run, request, specs)
  return change(run, request, {}, function()
    local list, new, results = cmsgpack.unpack(specs), {}, {}
    for n, one in ipairs(list) do new[n] = one[1] end
    creation.begin(run, new)
    for n, one in ipairs(list) do
      local item, reason = creation.create(run, one[1], one[2])
      if item then set_state(run, item, unpack(one, 3)) end
      results[n] = {item and 'created' or reason == 'id_taken' and 'there' or reason, one[1][1]}
    end
    available.take(run, 'ready') -- none of them is before its dependencies are there
    creation.index_new(run)
    return results
  end)
end
