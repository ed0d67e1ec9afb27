--[[
purpose:   Finds one page of a search that the ranked index answers by itself, and the total.
guarantee: The page is one consistent view, found in time logarithmic in the number of items. A page far down takes
           several runs; the reply says where to go on.
args:      scope classes span sorting newest offset limit ancestors state
           scope, classes, span as in include/ranges.lua, span packed; sorting = a age, p priority, c complexity;
           newest = 1 newest (highest) first, or 0; state = packed `left` of the last run, or ''
reply:     {total, rows, ancestors of each, ids of the page beyond the first 100, left = {} at the end}
errors:    none
--]]
-- @include offsets
-- @include rows

local ROWS = 100 -- read in one run
local descending = newest == '1'
local sets, total = ranked_sets({scope}, classes)
local area = {sets = sets, span = cmsgpack.unpack(span), newest = descending or sorting ~= 'a'}

-- The spans to read one after the other: a list of lists of spans.
local function spans_in_order()
  if sorting == 'a' then return {{area.span}} end
  local first, last, from, to = unpack(area.span)
  local priorities = {}
  for priority = math.floor(first / 16), math.floor(last / 16) do
    table.insert(priorities, descending and #priorities + 1 or 1, priority)
  end
  local list = {}
  if sorting == 'p' then
    for n, priority in ipairs(priorities) do list[n] = {{priority * 16, priority * 16 + 15, from, to}} end
    return list
  end
  for n = 1, 11 do
    local complexity = n == 11 and NO_COMPLEXITY or descending and 11 - n or n
    list[n] = {}
    for m, priority in ipairs(priorities) do
      local group = priority * 16 + complexity
      list[n][m] = {group, group, from, to}
    end
  end
  return list
end

if not is_whole(area.span) or area.span[1] > 0 or area.span[2] < EVERYTHING[2] then
  total = count_in_spans(area, {area.span})
end
local ids, skip, wanted = {}, tonumber(offset), tonumber(limit)
local left = state ~= '' and cmsgpack.unpack(state) or {}
for _, spans in ipairs(skip < total and spans_in_order() or {}) do
  local size = sorting == 'a' and total or skip > 0 and count_in_spans(area, spans) or math.huge
  if skip >= size then
    skip = skip - size
  elseif #ids < wanted then
    local moment, passed
    if skip > SKIPS_MAX then
      moment, passed = seek_moment(area, runs_from(area, spans), size, skip, left)
      if not moment then return cmsgpack.pack({total, {}, {}, {}, passed}) end
    end
    merge_runs(runs_from(area, spans, moment), area.newest, skip - (passed or 0), wanted, ids)
    skip = 0
  end
end

local rows, paths, more = {}, {}, {}
for n, id in ipairs(ids) do
  if n > ROWS then
    more[#more + 1] = id
  else
    rows[n] = short_row(id)
    if ancestors == '1' then paths[n] = path_to(rows[n][2]) end
  end
end
return cmsgpack.pack({total, rows, paths, more, {}})
