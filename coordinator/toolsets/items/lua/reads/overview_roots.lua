--[[
purpose:   Reads the newest roots, each with the counts of its children and, if wanted, the newest children.
guarantee: A consistent snapshot of about `budget` rows; the caller continues from there, with those still
           roots. Writes nothing: expired claims that were not put back yet count as expired. If there are very
           many of these, it only returns `late`.
args:      limit ids shown budget
           limit = how many roots; ids = packed list of those left by the last call, or ''; shown = how many children
           of each to show, 0 for none
reply:     {late, list of Root (store/query.py), ids left}; late = whether expired claims must be put back first
errors:    none
--]]
local claim_ends = require 'claim_ends'
local merges = require 'merges'
local read = require 'read'
local tallies = require 'tallies'
local views = require 'views'

local LATE_MAX = 500 -- expired claims not put back yet
local FINDING = 20 -- cost of finding the newest of a scope, in rows

-- By parent, how many children have one of the claims of some agents, which have expired and were not put back yet; nil
-- if these are LATE_MAX or more.
local function late_by_parent(run, agents)
  if #agents == LATE_MAX then return nil end
  local late = {}
  for _, id in ipairs(agents[1] and redis.call('HMGET', run.keys.agents, unpack(agents)) or {}) do
    local parent = redis.call('HGET', run.keys.item .. id, 'pa')
    if parent then late[parent] = (late[parent] or 0) + 1 end
  end
  return late
end

-- The newest children of an item, at most `most`, as {row, counts}.
local function newest_children(run, id, most)
  local list = {}
  for n, child in ipairs(most > 0 and merges.newest_of(run, 'p' .. id, most) or {}) do
    list[n] = {views.short(run, child), (tallies.by_role(run, child))}
  end
  return list
end

return function(run, limit, ids, shown, budget)
  return read(run, function()
    local left, most = tonumber(budget) - (ids == '' and FINDING or 0), tonumber(shown)
    local expired = redis.call('ZRANGEBYSCORE', run.keys.leases, '-inf', run.now, 'LIMIT', 0, LATE_MAX)
    local late = late_by_parent(run, expired)
    local over = late_by_parent(run, claim_ends.finished(run, LATE_MAX))
    if not (late and over) then return {true, {}, {}} end
    local reply, more = {}, {}
    for _, id in ipairs(ids == '' and merges.newest_of(run, 'p', tonumber(limit)) or cmsgpack.unpack(ids)) do
      local row = left > 0 and views.short(run, id)
      if left <= 0 then
        more[#more + 1] = id
      elseif row and not row[4].pa then
        local counts, held = tallies.by_role(run, id)
        local children = newest_children(run, id, most)
        reply[#reply + 1] = {row, counts, tallies.by_claim(run, id, counts, held - (over[id] or 0), late), children}
        left = left - #children - (most > 0 and FINDING or 0)
      end
      left = left - 1
    end
    return {false, reply, more}
  end)
end
