--[[
purpose:   Reads the newest roots, each with the counts of its children and, if wanted, the newest children.
guarantee: One consistent view of about `budget` rows; the caller goes on from there, with those that still are
           roots. Writes nothing: claims that have expired but were not put back yet are counted as expired. If there
           are very many of these, it only says so (`late`).
args:      limit ids shown budget
           limit = how many roots; ids = packed list of those left by the last run, or ''; shown = how many children
           of each to show, 0 for none
reply:     {late, list of {row, counts by role code, {active, expired, unclaimed}, children {row, counts}}, ids left},
           late = whether expired claims have to be put back first
errors:    none
--]]
-- @include clock
-- @include merge
-- @include rows
-- @include tallies

local LATE_MAX, FINDING = 500, 20 -- finding the newest of a scope costs about as much as so many rows
local now, left = server_time(), tonumber(budget) - (ids == '' and FINDING or 0)
local agents = redis.call('ZRANGEBYSCORE', K_LEASES, '-inf', now, 'LIMIT', 0, LATE_MAX)
if #agents == LATE_MAX then return cmsgpack.pack({true, {}, {}}) end
local late = {}
for _, id in ipairs(agents[1] and redis.call('HMGET', K_AGENTS, unpack(agents)) or {}) do
  local parent = redis.call('HGET', K_ITEM .. id, 'pa')
  if parent then late[parent] = (late[parent] or 0) + 1 end
end

local function shown_children(id)
  local list = {}
  for n, child in ipairs(newest_of('p' .. id, tonumber(shown))) do
    list[n] = {short_row(child), (count_by_role(child))}
  end
  return list
end

local reply, more = {}, {}
for _, id in ipairs(ids == '' and newest_of('p', tonumber(limit)) or cmsgpack.unpack(ids)) do
  local row = left > 0 and short_row(id)
  if left <= 0 then
    more[#more + 1] = id
  elseif row and not row[2] then
    local counts, held = count_by_role(id)
    local below = shown ~= '0' and shown_children(id) or {}
    reply[#reply + 1] = {row, counts, count_claims(id, counts, held, late), below}
    left = left - #below - (shown ~= '0' and FINDING or 0)
  end
  left = left - 1
end
return cmsgpack.pack({false, reply, more})
