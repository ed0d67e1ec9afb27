--[[
purpose:   The best items of one role that can be worked on, priority first, then low complexity, then age.
guarantee: Reads the head of the ready index: O(log n + limit), whatever the number of items. Expired
           claims are put back first, in a bounded batch; a larger one when too few items are ready.
args:      events_max role parent limit include_claimed ancestors
           role = number, parent = id or '' for all items, include_claimed and ancestors = 1 or 0
reply:     list of {id, title, role, priority, complexity, summary, tags, parent, claimed, ancestors},
           or {} with an unknown parent reported as an error
errors:    NOT_FOUND
--]]
-- @include clock
-- @include claims
-- @include ancestors

local now, wanted = server_time(), tonumber(limit)
role = tonumber(role)
if parent ~= '' and not load(parent) then return redis.error_reply('FLEET NOT_FOUND') end
local scope = parent == '' and '*' or 'p' .. parent

local SECOND_SWEEP, HELD_SLICE = 200, 64
local swept = sweep(now, events_max, SWEEP_BATCH)

local function head()
  local ids = redis.call('ZRANGE', index_key(scope, ready_class(role)), 0, wanted - 1)
  local items = {}
  for n, id in ipairs(ids) do items[n] = load(id) end
  return items
end

local found = head()
if #found < wanted and not swept then
  sweep(now, events_max, SECOND_SWEEP)
  found = head()
end

-- Held items are few (one per agent); those that wait for a dependency stay out here too.
if include_claimed == '1' then
  local key, from, held = index_key(scope, held_class(role)), 0, 0
  while held < wanted do
    local ids = redis.call('ZRANGE', key, from, from + HELD_SLICE - 1)
    for _, id in ipairs(ids) do
      local it = load(id)
      if held < wanted and not it.nb then
        found[#found + 1] = it
        held = held + 1
      end
    end
    if #ids < HELD_SLICE then break end
    from = from + HELD_SLICE
  end
  table.sort(found, function(a, b)
    local x, y = tonumber(rank(a)), tonumber(rank(b))
    return x < y or (x == y and a.id < b.id)
  end)
end

local reply = {}
for n = 1, math.min(#found, wanted) do
  local it = found[n]
  reply[n] = {
    it.id, title(it), it.role, tonumber(it.p), tonumber(it.c) or false, text(it, 's') or '', it.g or false,
    it.pa or false, live(it, now) and true or false, ancestors == '1' and ancestors_of(it) or {},
  }
end
return cmsgpack.pack(reply)
