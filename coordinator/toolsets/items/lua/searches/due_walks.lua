-- Walks the open items that are due within a span of time, in order of due time and id, over several calls. The
-- position of a walk is a due time and an id (`score`, `last`), as in walks.lua.
-- owns: none
local classes = require 'classes'
local item_record = require 'item_record'
local ranges = require 'ranges'

local CLASS_SIZE = classes.CLASS_SIZE

local due_walks = {}

local READ_MAX = 64 -- items read at a time

-- How many open items are due within a span {from, to} (ms).
function due_walks.size(run, due)
  return redis.call('ZCOUNT', run.keys.due, due[1], due[2])
end

-- A walk that continues after (score, last id) over items of some classes (a text of letters) within a span of ranks
-- (ranges.lua).
function due_walks.start(run, due, class_list, span, score, last)
  local key, wanted = run.keys.due, {}
  for letter in string.gmatch(class_list, '.') do wanted[classes.class_of_letter(letter)] = true end
  local position = redis.call('ZCOUNT', key, '-inf', score - 1)
  local at = last ~= '' and tonumber(redis.call('ZSCORE', key, last))
  if at == score then position = redis.call('ZRANK', key, last) + 1 end -- else those before it are skipped
  return {
    run = run, key = key, wanted = wanted, span = span, score = score, last = last, position = position, to = due[2],
  }
end

-- Continues a walk: calls visit(id, rank) for items of a page. False at the end of the walk.
function due_walks.step(walk, visit)
  local first = walk.position
  local flat = redis.call('ZRANGE', walk.key, first, first + READ_MAX - 1, 'WITHSCORES')
  walk.position = first + READ_MAX
  for n = 1, #flat, 2 do
    local id, at = flat[n], tonumber(flat[n + 1])
    if at > walk.to then return false end
    if at > walk.score or id > walk.last then
      walk.score, walk.last = at, id
      local score = item_record.score(redis.call('HGET', walk.run.keys.item .. id, 'w'))
      local fits = score and walk.wanted[math.floor(score / CLASS_SIZE)] and ranges.contains(walk.span, score)
      if fits then visit(id, score % CLASS_SIZE) end
    end
  end
  return #flat == 2 * READ_MAX
end

due_walks.READ_MAX = READ_MAX

return due_walks
