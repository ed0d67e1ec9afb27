-- The releases of a call, by the agent itself. Those that end their item come first: a claim of the call may get what
-- that makes ready, and gets nothing if one is refused. So do all those of a call that starts its item. Others follow
-- the claims, but for those of the item that a new claim gives up: what the agent says of that comes first, else it
-- would be lost.
-- A release is {id, fence or 0, reason, detail, used (for `usage.add`); and of one that ends its item result (as
-- triggers.lua takes it) and summary}. `made` is a list of what is said of each: {outcome, id, whether the fence is an
-- older one; of one that ends its item the entry of the transition, and its trigger}; with the outcome `later` it is
-- still to be made.
-- owns: none
local agents = require 'agents'
local claims = require 'claims'
local items = require 'items'
local starting = require 'starting'
local usage = require 'usage'
local work = require 'work'

local releasing = {}

-- The outcome for an item whose claim the agent does not have; else `success`. And whether the fence is an older one.
local function outcome_of(run, item, id, fence, agent)
  if not item then return items.absence_reason(id) end
  claims.notice_expiry(run, item)
  local older = fence > 0 and fence < (item.fence or 0)
  if item.holder ~= agent then return 'not_claimed_by_you', older end
  return fence > 0 and fence ~= item.fence and 'stale_fence' or 'success', older
end

-- Whether a release is still to be made; `said` = what is said of it.
local function is_open(said)
  return not said or said[1] == 'later'
end

-- Releases one item.
local function release(run, entry, agent, author)
  local id, fence, reason, detail, used = unpack(entry)
  local item = items.load(run, id)
  local outcome, older = outcome_of(run, item, id, fence, agent)
  if outcome == 'success' then
    usage.add(run, id, agent, used)
    if reason == 'untouched' then starting.undo(run, item, agent, cmsgpack.unpack(author)) end
    claims.release(run, item, reason, detail)
  end
  return {outcome, id, older}
end

-- Ends one item, which the agent holds on until its other claims and releases are made.
local function finish(run, entry, agent, author)
  local id, fence, _, _, used, result, summary = unpack(entry)
  local item = items.load(run, id)
  local outcome, older = outcome_of(run, item, id, fence, agent)
  if outcome ~= 'success' then return {outcome, id, older} end
  local moved, trigger = work.pass_on(run, item, agent, author, summary, result, used, true)
  return {moved[2] == '' and 'success' or 'refused', id, older, moved, trigger}
end

-- Makes those of the releases (packed) that come first; `author` as in starting.lua; `progress` = the packed reply of
-- the same call, in which they were made, or nil. Returns `made`, and whether one was refused that was to end its item.
function releasing.make_first(run, packed, agent, author, progress)
  if progress then return cmsgpack.unpack(progress)[3], false end
  local made, refused = {}, false
  if author == '' then return made, refused end
  local starts = cmsgpack.unpack(author)[5]
  for n, entry in ipairs(cmsgpack.unpack(packed)) do
    if entry[3] == 'done' then
      made[n] = starting.act_as(run, author, function(by) return finish(run, entry, agent, by) end)
      refused = refused or made[n][1] ~= 'success'
    else
      made[n] = starts and release(run, entry, agent, author) or {'later', entry[1]}
    end
  end
  return made, refused
end

-- Makes those of the releases that are about the item whose claim the agent gives up with one on another item; to be
-- called before that is placed. Adds to `made`.
function releasing.give_up(run, packed, agent, author, id, made)
  local given_up = agents.item_of(run, agent)
  if not given_up or given_up == id then return end
  for n, entry in ipairs(cmsgpack.unpack(packed)) do
    if entry[1] == given_up and is_open(made[n]) then made[n] = release(run, entry, agent, author) end
  end
end

-- Makes the other releases. Returns what is said of each.
function releasing.make(run, packed, agent, author, made)
  for n, entry in ipairs(cmsgpack.unpack(packed)) do
    local said = made[n]
    if is_open(said) then
      made[n] = release(run, entry, agent, author)
    elseif said[4] and said[1] == 'success' then
      local item = items.load(run, entry[1])
      local same = item and item.holder == agent and (entry[2] == 0 or item.fence == entry[2])
      if same then claims.release(run, item, '', '') end
    end
  end
  return made
end

return releasing
