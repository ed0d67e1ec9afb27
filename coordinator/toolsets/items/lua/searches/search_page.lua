--[[
purpose:   Finds one page of a search that the ranked index answers alone, and the total.
guarantee: The page is one consistent view, found in time logarithmic in the number of items. A page at a large
           offset takes several calls; the reply says where to continue.
args:      scope class_list span order newest offset limit with state
           scope, class_list, span as in ranges.lua, span packed; order = a age, p priority, c complexity;
           newest = 1 newest (highest) first, or 0; with = what rows show, too: letters of a ancestors, d details; state
           = packed `left` of the last call, or ''
reply:     Indexed (store/query.py)
errors:    none
--]]
local classes = require 'classes'
local merges = require 'merges'
local offsets = require 'offsets'
local ranges = require 'ranges'
local read = require 'read'
local views = require 'views'

local NO_COMPLEXITY = classes.NO_COMPLEXITY
local SKIPS_MAX = offsets.SKIPS_MAX

local ROWS_MAX = 100 -- read in one call

-- The spans to read in turn, a list of lists of spans, so that the items come in order.
local function spans_in_order(span, order, descending)
  if order == 'a' then return {{span}} end
  local first, last, from, to = unpack(span)
  local priorities, list = {}, {}
  for priority = math.floor(first / 16), math.floor(last / 16) do
    table.insert(priorities, descending and #priorities + 1 or 1, priority)
  end
  if order == 'p' then
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

-- The ids of the page in an area (offsets.lua) with `total` items; or nil and where the next call continues.
local function find_page(area, total, span_lists, by_age, skip, wanted, state)
  local ids, left = {}, state ~= '' and cmsgpack.unpack(state) or {}
  for _, spans in ipairs(skip < total and span_lists or {}) do
    local size = by_age and total or skip > 0 and offsets.count_in_spans(area, spans) or math.huge
    if skip >= size then
      skip = skip - size
    elseif #ids < wanted then
      local moment, passed
      if skip > SKIPS_MAX then
        moment, passed = offsets.seek_moment(area, offsets.lanes_from(area, spans), size, skip, left)
        if not moment then return nil, passed end
      end
      merges.merge_lanes(offsets.lanes_from(area, spans, moment), area.newest, skip - (passed or 0), wanted, ids)
      skip = 0
    end
  end
  return ids
end

-- The rows of the first ids, with what is wanted beside them, and the remaining ids.
local function rows_of(run, ids, with)
  local rows, paths, more = {}, {}, {}
  for n, id in ipairs(ids) do
    if n > ROWS_MAX then
      more[#more + 1] = id
    else
      rows[n] = views.short(run, id)
      if string.find(with, 'd', 1, true) then views.add_details(run, rows[n]) end
      if string.find(with, 'a', 1, true) then paths[n] = views.ancestors(run, rows[n][4].pa) end
    end
  end
  return rows, paths, more
end

return function(run, scope, class_list, span, order, newest, offset, limit, with, state)
  return read(run, function()
    local descending, by_age = newest == '1', order == 'a'
    local sets, total = ranges.sets(run, {scope}, class_list)
    local area = {sets = sets, span = cmsgpack.unpack(span), newest = descending or not by_age}
    if not ranges.is_everything(area.span) then total = offsets.count_in_spans(area, {area.span}) end
    local span_lists = spans_in_order(area.span, order, descending)
    local ids, left = find_page(area, total, span_lists, by_age, tonumber(offset), tonumber(limit), state)
    if not ids then return {total, {}, {}, {}, left} end
    local rows, paths, more = rows_of(run, ids, with)
    return {total, rows, paths, more, {}}
  end)
end
