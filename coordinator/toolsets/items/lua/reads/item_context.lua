--[[
purpose:   Reads an item for an agent about to work on it: notes, claim, and ancestors if wanted.
guarantee: A consistent snapshot. The claim is shown whether it is live or expired; on a terminal item until it ends.
args:      id run.config with_ancestors include
           config = schema version, '' for none; with_ancestors = 1 or 0; include = what to add
           (included.lua), '' for nothing
reply:     Context (store/context.py)
errors:    NOT_FOUND
--]]
local claims = require 'claims'
local classes = require 'classes'
local graph = require 'graph'
local included = require 'included'
local items = require 'items'
local notes = require 'notes'
local read = require 'read'
local views = require 'views'

-- The claim of an item in the form of the reply, or false.
local function claim_of(run, item)
  local live = claims.is_live(run, item)
  if not item.holder or item.role == classes.TERMINAL and classes.is_held(item) and not live then return false end
  return {item.holder, item.claimed_at, item.expires, item.first_claimed_at, not live}
end

-- The attempts in the form of the reply; their list is read only if there were any.
local function attempts_on(run, item)
  return views.attempts(item, item.an and redis.call('HGET', run.keys.text .. item.id, 'a'))
end

return function(run, id, with_ancestors, include)
  return read(run, function()
    local item = items.load(run, id)
    if not item then return redis.error_reply('FLEET NOT_FOUND') end
    return {
      items.title_of(run, item), item.role, item.g or false, item.depth, notes.schema_inputs(run, item),
      with_ancestors == '1' and views.ancestors(run, item.pa) or {}, claim_of(run, item),
      graph.unsatisfied_blockers_ahead(run, item), attempts_on(run, item),
      include ~= '' and included.of(run, id, include), views.said(run, item), item.rh or '',
    }
  end)
end
