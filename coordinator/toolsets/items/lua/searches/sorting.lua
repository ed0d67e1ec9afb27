-- Sort keys of a search: t title (ASCII case folded, else by code point), m modified, a created, p priority (high is
-- the greatest), c complexity and d due (none comes last). Smaller keys come first, except for descending titles; equal
-- ones are ordered by creation, newest first, then by id.
-- owns: none
local classes = require 'classes'
local due_times = require 'due_times'
local item_record = require 'item_record'

local NO_COMPLEXITY = classes.NO_COMPLEXITY
local NEVER = 2 ^ 53

local sorting = {}

-- By bytes: the order of Lua's own comparison depends on the server's locale.
local function text_before(a, b)
  for n = 1, math.min(#a, #b) do
    local x, y = string.byte(a, n), string.byte(b, n)
    if x ~= y then return x < y end
  end
  return #a < #b
end

-- Returns key_of(id, rank, created, values) and after(key, created, bound): whether an item comes after the bound {key,
-- created}. field(name) as `conditions.compile` returns it.
function sorting.compile(run, by, descending, field)
  if by == 't' then
    local at = field('t')
    local function key_of(id, _, _, values)
      return string.lower(values[at] or redis.call('HGET', run.keys.text .. id, 't'))
    end
    return key_of, function(key, created, bound)
      if key == bound[1] then return created < bound[2] end
      if descending then return text_before(key, bound[1]) end
      return text_before(bound[1], key)
    end
  end
  local at = by == 'm' and field('w') or by == 'd' and field('du')
  local function key_of(_, rank_score, created, values)
    local key = created
    if by == 'm' then key = item_record.modified_at(values[at]) or created end
    if by == 'd' then
      key = due_times.due_at(values[at])
      if not key then return NEVER end
    end
    if by == 'p' then key = 2 - classes.priority_of(rank_score) end
    if by == 'c' then
      key = classes.complexity_of(rank_score)
      if not key then return NO_COMPLEXITY end
    end
    return descending and -key or key
  end
  return key_of, function(key, created, bound)
    return key > bound[1] or (key == bound[1] and created < bound[2])
  end
end

return sorting
