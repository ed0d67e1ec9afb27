-- Why an item that is claimed is not ready to be worked on.
-- owns: none
local classes = require 'classes'
local graph = require 'graph'
local held_back = require 'held_back'
local items = require 'items'

local readiness = {}

local BLOCKED = classes.BLOCKED
local BLOCKERS_NAMED = 20

-- The reason in the form of the reply of claim_item.lua; nil: it is ready.
function readiness.why_not(run, item)
  if not (item.nt or item.nb) and item.role ~= BLOCKED then return nil end
  if item.nt and not item.depth then item = items.load(run, item.id) end -- `claims.load` reads less
  local held_until, template = tonumber(item.nt or -1), held_back.is_template(item)
  if held_until > 0 and held_until <= run.now and not template then held_until = -1 end -- nobody has noticed yet
  if not item.nb and held_until < 0 and item.role ~= BLOCKED then return nil end
  local found = item.nb and graph.unsatisfied_blockers(run, item, BLOCKERS_NAMED) or {}
  return {item.role, tonumber(item.nb or 0), found, held_until, held_back.not_before(item) ~= nil, template}
end

return readiness
