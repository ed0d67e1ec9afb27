--[[
purpose:   Runs one slice of a search that has to read the items.
guarantee: About `budget` items per call. The first call chooses the narrowest of the given scopes, or the list of open
           items by when they are due. All sets of a scope are walked together in order of rank. A change of role or
           claim does not change the rank, so an item is seen exactly once if its priority and complexity stay the same;
           in that list, if it is due at the same time.
args:      asked state bound budget
           asked = packed map: scopes {name of the condition it answers or '', scopes}, classes, span
           (ranges.lua), conditions (conditions.lua), sorting and descending
           (sorting.lua), due: {from, to} in ms if it is for open items that are due then, else absent;
           state = packed reply up to `last`, or '';
           bound = packed {key, created} that listed items must not come after, or ''
reply:     Scanned (store/query.py)
errors:    none
--]]
local classes = require 'classes'
local conditions = require 'conditions'
local due_walks = require 'due_walks'
local ranges = require 'ranges'
local read = require 'read'
local sorting = require 'sorting'
local walks = require 'walks'

local GROUP_SIZE, RANK_EPOCH = classes.GROUP_SIZE, classes.RANK_EPOCH

local DUE = -1 -- as the choice: the list of open items by when they are due
local TEXT_UNIT = 2000 -- bytes of text that take as long as an item

-- Whether the search is for expired claims and there are none.
local function finds_nothing(run, asked)
  return asked.conditions.cl == 'expired'
    and redis.call('HEXISTS', run.keys.lapsed, '*') == 0
    and redis.call('ZCOUNT', run.keys.leases, '-inf', run.now) == 0
end

-- The visitor of the walk: returns look(id, rank), and its table of counts. `limit` = the bound, or false; `several` =
-- whether an item may be in more than one set.
local function looker(run, asked, limit, several)
  local fields, test, field = conditions.compile(run, asked.conditions)
  local key_of, after = sorting.compile(run, asked.sorting, asked.descending, field)
  local seen, tally = {}, {spent = 0, looked = 0, matched = 0, listed = {}}
  local function look(id, rank)
    if several then
      if seen[id] then return end
      seen[id] = true
    end
    local created = rank % GROUP_SIZE + RANK_EPOCH
    local values = #fields > 0 and redis.call('HMGET', run.keys.item .. id, unpack(fields)) or {}
    local meets, bytes = test(values, id, created)
    tally.looked, tally.spent = tally.looked + 1, tally.spent + 1 + bytes / TEXT_UNIT
    if not meets then return end
    tally.matched = tally.matched + 1
    local key = key_of(id, rank, created, values)
    if not (limit and after(key, created, limit)) then tally.listed[#tally.listed + 1] = {id, key, created} end
  end
  return look, tally
end

-- The walk of a search from (score, last) on, `score` nil at its beginning: the choice of what to walk, the walk, its
-- step, what a step costs beside its items, and whether an item may be met more than once.
local function start(run, search, choice, score, last, most)
  if choice ~= DUE then
    local sets, total, narrowest = ranges.narrowest(run, search.scopes, search.classes, choice)
    if choice ~= 0 or not search.due or total <= due_walks.size(run, search.due) then
      if finds_nothing(run, search) then sets = {} end
      local answered, scopes = unpack(search.scopes[narrowest])
      search.conditions[answered] = nil
      score = score or search.span[1] * GROUP_SIZE + search.span[3]
      -- An item may have more than one of the tags.
      return narrowest, walks.start(sets, total, search.span, score, last, most), walks.step, #sets / 4, #scopes > 1
    end
  end
  local walk = due_walks.start(run, search.due, search.classes, search.span, score or search.due[1], last)
  return DUE, walk, due_walks.step, due_walks.READ_MAX / 4, false
end

return function(run, asked, state, bound, budget)
  return read(run, function()
    local search, most = cmsgpack.unpack(asked), tonumber(budget)
    local choice, score, last = 0, nil, ''
    if state ~= '' then choice, score, last = unpack(cmsgpack.unpack(state)) end
    local chosen, walk, step, cost, several = start(run, search, choice, score, last, most)
    local look, tally = looker(run, search, bound ~= '' and cmsgpack.unpack(bound), several)
    score = score or walk.score
    local done
    repeat
      done = not step(walk, look)
      tally.spent = tally.spent + cost
      local moved = walk.score > score or walk.last ~= last -- otherwise the next call would repeat this one
    until done or (moved and tally.spent >= most)
    return {chosen, walk.score, walk.last, done, tally.looked, tally.matched, tally.listed}
  end)
end
