-- Pages of things by when they last changed, the last one first: of a sorted set with times in ms as scores. A position
-- is the time and the id of the last entry that was looked at; '' is the beginning.
-- owns: none
local clock = require 'clock'

local recent = {}

-- Time and id of a position, or nil.
local function parse(position)
  local at, id = string.match(position, '^(%d+)/(.+)$')
  return tonumber(at), id
end

local function is_later(a, b)
  return a.at > b.at or a.at == b.at and a.id > b.id
end

-- Entries {id, at} after a position, at most `limit`. `base` = what is added to the times of these entries in the set,
-- which are all from `base` to before `past`.
local function entries(key, base, past, after, limit)
  local at, id = parse(after)
  local from, ties = '(' .. clock.whole(past), 0
  if at then
    from = clock.whole(base + at)
    ties = redis.call('ZCOUNT', key, from, from)
  end
  local found = redis.call('ZRANGE', key, from, base, 'BYSCORE', 'REV', 'LIMIT', 0, limit + ties, 'WITHSCORES')
  local rows = {}
  for n = 1, #found, 2 do
    local entry = {id = found[n], at = found[n + 1] - base}
    if #rows < limit and (not at or entry.at < at or entry.id < id) then rows[#rows + 1] = entry end
  end
  return rows
end

-- The position after an entry.
function recent.position(entry)
  return clock.whole(entry.at) .. '/' .. entry.id
end

-- A page of entries {id, at} of the set, and the position after it; '' if it is the last one. `marks` = for each part
-- of the set what is added to the times of its entries: multiples of recent.MARK.
function recent.page(key, marks, after, limit)
  local all = {}
  for _, mark in ipairs(marks) do
    for _, entry in ipairs(entries(key, mark, mark + recent.MARK, after, limit)) do all[#all + 1] = entry end
  end
  table.sort(all, is_later)
  while #all > limit do all[#all] = nil end
  return all, all[limit] and recent.position(all[limit]) or ''
end

recent.MARK = 2 ^ 50

return recent
