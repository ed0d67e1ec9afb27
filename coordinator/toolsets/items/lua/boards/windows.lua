-- Windows of items in order of rank, and of ids at equal ranks, over several sets of the ranked index
-- (ranges.lua): a page {ids, limit, rank and last = where it ends, skip = matches to pass over before it
-- begins}. The position stays good when items move between sets. Entries are {id, rank}.
-- owns: none
local classes = require 'classes'
local walks = require 'walks'

local GROUP_SIZE = classes.GROUP_SIZE

local windows = {}

local SKIPS_MAX = 64 -- items passed over one by one

function windows.comes_before(one, other)
  if one[2] ~= other[2] then return one[2] < other[2] end
  return one[1] < other[1]
end

-- A page that begins at a position (`windows.position`), or if that is '', `offset` matches after the beginning of a
-- span.
function windows.page(span, offset, position, limit)
  local rank, skip, last = string.match(position, '^(%d+):(%d+):(%x*)$')
  return {
    ids = {}, limit = limit, rank = tonumber(rank) or span[1] * GROUP_SIZE, last = last or '',
    skip = tonumber(skip or offset),
  }
end

function windows.position(page)
  return string.format('%d:%d:%s', page.rank, page.skip, page.last)
end

-- Moves a page past an item, and adds it if it matches.
local function pass(page, id, rank, matches)
  page.rank, page.last = rank, id
  if not matches then return end
  if page.skip > 0 then page.skip = page.skip - 1 else page.ids[#page.ids + 1] = id end
end

-- Fills a page from a list of all matches in order. Returns whether there are more.
function windows.cut(page, list)
  local from = {page.last, page.rank}
  for _, entry in ipairs(list) do
    if windows.comes_before(from, entry) then
      if #page.ids == page.limit then return true end
      pass(page, entry[1], entry[2], true)
    end
  end
  return false
end

-- Moves a page to a rank almost page.skip matches further, if all in the sets and the span match. O(log n).
function windows.seek(page, sets, span)
  local first, before, high = span[1] * GROUP_SIZE, 0, (span[2] + 1) * GROUP_SIZE
  while page.skip - before > SKIPS_MAX and high - page.rank > 1 do
    local middle, n = page.rank + math.floor((high - page.rank) / 2), 0
    for _, set in ipairs(sets) do n = n + redis.call('ZCOUNT', set.key, set.base + first, set.base + middle - 1) end
    if n <= page.skip then page.rank, before = middle, n else high = middle end
  end
  page.skip = page.skip - before
end

-- Fills a page from the sets, of `total` items; meets(id, rank) returns whether an item matches, and what it costs of
-- the budget to know. Returns whether there may be more.
function windows.walk(page, sets, total, span, meets, budget)
  local walk = walks.start(sets, total, span, page.rank, page.last, page.skip + page.limit + 1)
  local going, seen
  repeat
    local batch = {}
    going = walks.step(walk, function(id, rank) batch[#batch + 1] = {id, rank} end)
    table.sort(batch, windows.comes_before)
    for _, entry in ipairs(batch) do
      local id, rank = unpack(entry)
      if id ~= seen then -- one with two of the tags comes twice in a row
        if #page.ids == page.limit or budget <= 0 then return true end
        local matches, spent = meets(id, rank)
        seen, budget = id, budget - spent
        pass(page, id, rank, matches)
      end
    end
    if going then page.rank, page.last = walk.score, walk.last end
  until not going
  return false
end

return windows
