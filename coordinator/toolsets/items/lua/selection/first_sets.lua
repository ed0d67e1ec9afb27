-- The first sets of items that are apart (apart.lua), and the first items of some, as a call has read them. In
-- a call: exist, whether there are sets with further conditions; list, the first ones of all classes as the key apart
-- has them; items, by key of a scope: its first items in a class with their scores. The last two only while that is so.
-- owns: none
local absence = require 'absence'

local first_sets = {}

local READ = 3 -- sets

-- Reads the first sets. Returns whether there are any.
function first_sets.look(run)
  local own = run[first_sets] or {}
  run[first_sets] = own
  own.list = redis.call('ZRANGE', run.keys.apart, 0, READ - 1, 'WITHSCORES')
  own.exist = own.list[1] ~= nil
  return own.exist
end

-- Whether there are sets with further conditions.
function first_sets.exist(run)
  local own = run[first_sets]
  if own and own.exist ~= nil then return own.exist end
  return not run.absent[run.keys.apart] and first_sets.look(run)
end

-- The first READ sets; nil: not known.
function first_sets.list(run)
  return run[first_sets] and run[first_sets].list
end

-- Forgets them, as the items of one have changed: it may be the first one.
function first_sets.forget(run)
  if run[first_sets] then run[first_sets].list, run[first_sets].exist = nil, nil end
  if run.absent[run.keys.apart] then absence.forget(run, {run.keys.apart}) end
end

-- Notes the first two items of a scope.
function first_sets.note_items(run, scope, two)
  local own = run[first_sets] or {}
  run[first_sets] = own
  own.items = own.items or {}
  own.items[scope] = two
end

-- These; nil: not known.
function first_sets.items(run, scope)
  local items = run[first_sets] and run[first_sets].items
  return items and items[scope]
end

function first_sets.forget_items(run)
  if run[first_sets] then run[first_sets].items = nil end
end

first_sets.READ = READ

return first_sets
