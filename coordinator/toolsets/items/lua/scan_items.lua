--[[
purpose:   Makes one slice of a search that has to look at the items themselves.
guarantee: About `budget` items a run. The first run chooses the narrowest of the scopes offered. All sets of
           the scope are walked together in order of rank. A change of role or claim does not change the rank, so an
           item is seen exactly once if its priority and complexity stay the same.
args:      asked state bound budget
           asked = packed map: scopes {name of the condition it answers or '', scopes}, classes, span
           (include/ranges.lua), conditions (include/conditions.lua), sorting and descending
           (include/sorting.lua); state = packed reply up to `last`, or '';
           bound = packed {key, created} that listed items must not come after, or ''
reply:     {choice, score, last, done, looked at, matches, listed {id, key, created}}
           choice, score, last = where to go on; smaller keys come first, except for descending titles
errors:    none
--]]
-- @include clock
-- @include conditions
-- @include sorting
-- @include walk

local TEXT_UNIT = 2000 -- bytes of text that take as long as an item

local ask, now = cmsgpack.unpack(asked), server_time()
local limit = bound ~= '' and cmsgpack.unpack(bound)
local choice, score, last = 0, ask.span[1] * GROUP_SIZE + ask.span[3], ''
if state ~= '' then choice, score, last = unpack(cmsgpack.unpack(state)) end

local sets, total, narrowest = nil, math.huge, choice
for n, offer in ipairs(ask.scopes) do
  if choice == 0 or choice == n then
    local found, size = ranked_sets(offer[2], ask.classes)
    if size < total then sets, total, narrowest = found, size, n end
  end
end
if ask.conditions.cl == 'expired' and redis.call('HEXISTS', K_LAPSED, '*') == 0 then
  if redis.call('ZCOUNT', K_LEASES, '-inf', now) == 0 then sets = {} end -- no claim has expired
end
local answered, scope = unpack(ask.scopes[narrowest])
ask.conditions[answered] = nil
local fields, test, field = compile_conditions(ask.conditions, now)
local key_of, after = compile_sorting(ask.sorting, ask.descending, field)

local spent, looked, matched, listed = 0, 0, 0, {}
local several, seen = #scope > 1, {}

local function look(id, rank_score)
  if several then -- with several of the tags it stands in several sets
    if seen[id] then return end
    seen[id] = true
  end
  looked, spent = looked + 1, spent + 1
  local created = rank_score % GROUP_SIZE + RANK_EPOCH
  local values = #fields > 0 and redis.call('HMGET', K_ITEM .. id, unpack(fields)) or {}
  local meets, bytes = test(values, id, created)
  spent = spent + bytes / TEXT_UNIT
  if not meets then return end
  matched = matched + 1
  local key = key_of(id, rank_score, created, values)
  if not (limit and after(key, created, limit)) then listed[#listed + 1] = {id, key, created} end
end

local walk = start_walk(sets, total, ask.span, score, last, tonumber(budget))
local done
repeat
  done = not step_walk(walk, look)
  spent = spent + #sets / 4
  local moved = walk.score > score or walk.last ~= last -- else the next run would do the same again
until done or (moved and spent >= tonumber(budget))
return cmsgpack.pack({narrowest, walk.score, walk.last, done, looked, matched, listed})
