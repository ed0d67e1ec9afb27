--[[
purpose:   Reads what keeps items from being claimed that are ready, and has claims end soon: busy resources, and spent
           budgets.
guarantee: A consistent snapshot. The caller sends at most 100 ids.
args:      run.terms ids
           ids = packed list
reply:     {now, for each id Obstacle (store/obstacles.py), or false if it does not exist}
errors:    none
--]]
local budgets = require 'budgets'
local classes = require 'classes'
local fairness = require 'fairness'
local items = require 'items'
local read = require 'read'

local TERMINAL = classes.TERMINAL

local function busy(run, item)
  if not (item.rs and not item.rh and item.role ~= TERMINAL and classes.READY_CLASSES[item.class]) then return '' end
  return fairness.busy_node(run, item, item.rs, '') and fairness.busy_ones(run, item, item.rs, '') or ''
end

return function(run, ids)
  return read(run, function()
    local found = {}
    for n, id in ipairs(cmsgpack.unpack(ids)) do
      local item = items.load(run, id)
      found[n] = item and {busy(run, item),
        item.role ~= TERMINAL and budgets.against(run, id, classes.is_held(item) and item.holder) or false} or false
    end
    return {run.now, found}
  end)
end
