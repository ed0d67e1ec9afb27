-- Items with their scores in the scopes that items of all kinds share, as {id, score}.
-- owns: none
local classes = require 'classes'
local items = require 'items'
local watched = require 'watched'

local subtrees = {}

-- The item of an id (nil or false: none) in a list.
function subtrees.just(run, id)
  local item = id and items.load(run, id)
  return item and {{id, classes.shared_score(item)}} or {}
end

-- The items below one, level by level, as {id, score, parent}; and whether these are all: it ends soon after `most`.
function subtrees.below(run, root, most)
  local found, parents = {}, {root}
  while parents[1] do
    local ids = {}
    for _, parent in ipairs(parents) do
      local flat = redis.call('ZRANGE', run.keys.ranked .. 'p' .. parent, 0, most, 'WITHSCORES')
      for n = 1, #flat, 2 do
        ids[#ids + 1] = flat[n]
        found[#found + 1] = {flat[n], tonumber(flat[n + 1]), parent}
      end
      if #found > most then return found, false end
    end
    parents = watched.with_children(run, ids)
  end
  return found, true
end

return subtrees
