--[[
purpose:   Items of the global overview, each with the counts of its children and, where asked for, children.
guarantee: Each item is one consistent view. Ends when about `budget` rows were read; the caller goes on from
           there. Writes nothing: claims that expired and were not put back yet are counted as expired.
           When very many are in that state it does nothing but say so.
args:      ids shown budget
           ids = packed list; shown = how many of each item's children to show, 0 for none
reply:     {finished, list of {row, counts by role code, {active, expired, unclaimed}, children {row, counts}}},
           finished = how many ids are done, -1 when expired claims have to be put back first
errors:    none
--]]
-- @include clock
-- @include merge
-- @include rows
-- @include tallies

local MOST_LATE = 500
local now, left = server_time(), tonumber(budget)
local agents = redis.call('ZRANGEBYSCORE', K_LEASES, '-inf', now, 'LIMIT', 0, MOST_LATE)
if #agents == MOST_LATE then return cmsgpack.pack({-1, {}}) end
local late = {}
for _, id in ipairs(agents[1] and redis.call('HMGET', K_AGENTS, unpack(agents)) or {}) do
  local parent = redis.call('HGET', K_ITEM .. id, 'pa')
  if parent then late[parent] = (late[parent] or 0) + 1 end
end

local function shown_children(id)
  local list = {}
  for n, child in ipairs(newest_of('p' .. id, tonumber(shown))) do
    list[n] = {short_row(child), (tally(child))}
  end
  return list
end

local finished, list, reply = 0, cmsgpack.unpack(ids), {}
while finished < #list and left > 0 do
  finished, left = finished + 1, left - 1
  local id = list[finished]
  local row = short_row(id)
  if row then
    local counts, held = tally(id)
    local below = shown ~= '0' and shown_children(id) or {}
    reply[#reply + 1] = {row, counts, claim_tally(id, counts, held, late), below}
    left = left - #below - (shown ~= '0' and 20 or 0) -- finding them costs about as much as 20 rows
  end
end
return cmsgpack.pack({finished, reply})
