-- What a claim or a context includes about its item if the caller asks for it: the item in full (i) or without its
-- transitions (w), its notes (n), and the results of the items that block it (r). One call has at most BYTES of their
-- texts, which is more than an answer shows: if there are more, the longest are cut to a common length. In a call:
-- rows, notes and results that were read; bytes, of their bodies.
-- owns: none
local graph = require 'graph'
local items = require 'items'
local notes = require 'notes'
local views = require 'views'

local included = {}

local BYTES = 240000
local ROWS_MAX = 100 -- notes read, and results
local READ_MAX, SHORT = 1000000, 4000 -- bytes of bodies read by one call; of further notes only short bodies are read
local LONG_TEXTS = {'x', 'm', 'o'} -- description, metadata, properties

-- Whether an item has long texts, notes and edges, by one command, as often there are none. EXISTS counts a key as
-- often as it is named.
local function what_exists(run, id)
  local texts, of_item, edges = run.keys.text .. id, run.keys.notes .. id, run.keys.edges .. id
  local count = redis.call('EXISTS', texts, of_item, of_item, edges, edges, edges, edges)
  return count % 2 == 1, math.floor(count / 2) % 2 == 1, count >= 4
end

-- The ROWS_MAX of a list of {id of a note, name} that come after `offset`, oldest first, then by name: in the order of
-- answers, which may leave out some of the last. Where these are all, they are not put in order.
local function page_of(run, list, offset, is_created)
  if offset == 0 and #list <= ROWS_MAX then return list end
  local at, page = {}, {}
  for _, one in ipairs(list) do
    local modified, created = unpack(redis.call('HMGET', run.keys.note .. one[1], 'm', 'c'))
    at[one] = tonumber(is_created and created or modified)
  end
  table.sort(list, function(one, other)
    if at[one] ~= at[other] then return at[one] < at[other] end
    return one[2] < other[2]
  end)
  for n = offset + 1, math.min(#list, offset + ROWS_MAX) do page[#page + 1] = list[n] end
  return page
end

-- {id, key} of the notes of an item.
local function all_notes(run, id)
  local flat, list = redis.call('HGETALL', run.keys.notes .. id), {}
  for n = 1, #flat, 2 do list[#list + 1] = {string.sub(flat[n + 1], 1, 32), flat[n]} end
  return list
end

-- {id of its result, id of the blocker} of each blocker of an item that has one.
local function all_results(run, id)
  local blocking, list = {}, {}
  graph.each_edge(run, id, function(code, other)
    if graph.blocked_by_other(code) and not blocking[other] then
      blocking[other] = true
      local entry = redis.call('HGET', run.keys.notes .. other, notes.RESULT)
      if entry and notes.is_filled(entry) then list[#list + 1] = {string.sub(entry, 1, 32), other} end
    end
  end)
  return list
end

-- How many notes and results this call has read.
function included.rows_read(run)
  return run[included] and run[included].rows or 0
end

-- A note and the bytes of its body. Its place is added to `texts`.
local function read_note(run, id, texts)
  local own = run[included] or {rows = 0, bytes = 0}
  local size = own.bytes > READ_MAX and redis.call('HSTRLEN', run.keys.note .. id, 'b') or 0
  local row = notes.load(run, id, size <= SHORT)
  run[included] = {rows = own.rows + 1, bytes = own.bytes + #row[5]}
  texts[#texts + 1] = {row, 5, #row[5]}
  return row, math.max(size, #row[5])
end

-- The beginning of a text in UTF-8, of at most this many bytes.
local function beginning(text, bytes)
  while bytes > 0 and math.floor((string.byte(text, bytes + 1) or 0) / 64) == 2 do bytes = bytes - 1 end
  return string.sub(text, 1, bytes)
end

-- Cuts the longest of the texts, {table, place in it, bytes}, so that they have at most BYTES together.
local function shorten(texts)
  local total = 0
  for _, text in ipairs(texts) do total = total + text[3] end
  if total <= BYTES then return end
  table.sort(texts, function(one, other) return one[3] < other[3] end)
  local left = BYTES
  for n, text in ipairs(texts) do
    local share = math.floor(left / (#texts - n + 1))
    if text[3] > share then text[1][text[2]] = beginning(text[1][text[2]], share) end
    left = left - math.min(text[3], share)
  end
end

-- `wanted` = some of the letters i or w, n and r, then how many notes and results to skip, if any. Returns {full view
-- or false, bytes of its long texts, list of {note, bytes of its body}, number of notes, list of {blocker, its title
-- and role, its result as a note, bytes of it}, number of results}; notes as notes.load returns them, with a shortened
-- or empty body if it is too long.
function included.of(run, id, wanted)
  local texts, view, sizes, rows, results, row_count, result_count = {}, false, {}, {}, {}, 0, 0
  local has_texts, has_notes, has_edges = what_exists(run, id)
  local offset = tonumber(string.match(wanted, '%d+') or 0)
  local item = string.match(wanted, '[iw]')
  if item then
    view = views.full(run, items.load(run, id), not has_texts, item == 'w')
    local said = view[4]
    for n, field in ipairs(LONG_TEXTS) do
      sizes[n] = said[field] and #said[field] or 0
      if said[field] then texts[#texts + 1] = {said, field, sizes[n]} end
    end
  end
  if has_notes and string.find(wanted, 'n', 1, true) then
    local list = all_notes(run, id)
    row_count = #list
    for n, one in ipairs(page_of(run, list, offset, true)) do rows[n] = {read_note(run, one[1], texts)} end
  end
  if has_edges and string.find(wanted, 'r', 1, true) then
    local list = all_results(run, id)
    result_count = #list
    for n, one in ipairs(page_of(run, list, offset, false)) do
      local note, blocker = unpack(one)
      local title, role = unpack(views.head(run, blocker))
      results[n] = {blocker, title, role, read_note(run, note, texts)}
    end
  end
  shorten(texts)
  return {view, sizes, rows, row_count, results, result_count}
end

return included
