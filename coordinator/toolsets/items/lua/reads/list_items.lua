--[[
purpose:   Reads items of some roles for lists: with notes (unless blocked), and ancestors if wanted.
guarantee: Ends after about 500 notes; the caller continues from there. Items that no longer exist, or no longer
           have one of the roles, are left out.
args:      roles run.config with_ancestors ids
           roles = their codes; config = schema version, '' if there are none; with_ancestors = 1 or 0;
           ids = packed list
reply:     {ids finished, list of ListRow (store/context.py)}
errors:    none
--]]
local classes = require 'classes'
local items = require 'items'
local notes = require 'notes'
local read = require 'read'
local views = require 'views'

local BLOCKED = classes.BLOCKED

local NOTES_MAX = 500 -- per call

return function(run, roles, with_ancestors, ids)
  return read(run, function()
    local list, finished, reply, left = cmsgpack.unpack(ids), 0, {}, NOTES_MAX
    while finished < #list and left > 0 do
      finished = finished + 1
      local item = items.load(run, list[finished])
      if item and string.find(roles, item.role, 1, true) then
        local inputs = notes.schema_inputs(run, item, item.role == BLOCKED)
        local above = with_ancestors == '1' and views.ancestors(run, item.pa) or {}
        reply[#reply + 1] = {item.id, items.title_of(run, item), item.role, inputs, above}
        left = left - #inputs[4]
      end
    end
    return {finished, reply}
  end)
end
