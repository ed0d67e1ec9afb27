-- Claims: one per agent, TTL by server time, and a fence that only rises per item. A claim is live while its expiry
-- lies ahead. A held class means a claim that was live when last checked; items whose claims have expired are moved out
-- of it in bounded batches (expiry.lua), or when a call looks at them. The record of an expired claim stays on the item
-- ("lapsed") until that is claimed, released or deleted, and is counted. Times are in ms.
-- Events: release and expire show a agent, f fence, a release with a reason also r, one by somebody else than the
-- holder b what that is; claim and renew x expires; a claim that replaces an earlier one o its item, p its fence.
--   lapsed  scope ('*' or 'p' .. parent) -> lapsed claims in it
-- owns: lapsed
local abandoned = require 'abandoned'
local agents = require 'agents'
local attempts = require 'attempts'
local available = require 'available'
local blockers = require 'blockers'
local bounds = require 'bounds'
local children = require 'children'
local claim_ends = require 'claim_ends'
local classes = require 'classes'
local clock = require 'clock'
local events = require 'events'
local holds = require 'holds'
local index = require 'index'
local item_events = require 'item_events'
local items = require 'items'
local resources = require 'resources'

local HELD, REVIEW, STATES, TERMINAL = classes.HELD, classes.REVIEW, classes.STATES, classes.TERMINAL

local claims = {}

local SWEEP_WRITES = 1500 -- per sweep, roughly: items with many tags or edges are put back a few at a time
local WRITES_EACH, WRITES_OF_ATTEMPT = 4, 12 -- besides those of the index

function claims.is_live(run, item)
  return item.holder and item.expires > run.now
end

-- Adds `by` to the counts of lapsed claims of an item.
function claims.count_lapsed(run, item, by)
  for _, scope in ipairs({'*', 'p' .. (item.pa or '')}) do
    if redis.call('HINCRBY', run.keys.lapsed, scope, by) == 0 then redis.call('HDEL', run.keys.lapsed, scope) end
  end
end

-- Puts a held item back whose claim has expired; `ended` as for `attempts.count`. Returns how many more writes it took.
local function expire(run, item, ended)
  local attempt = attempts.is_one(item)
  item_events.emit(run, 'expire', item, 'a', item.holder, 'f', clock.word(item.fence))
  if attempt then attempts.count(run, item, ended, item.expires, '', '') end
  index.move_to_class(run, item, classes.unclaimed_class(item, item.role))
  items.save(run, item)
  if item.k then bounds.restore(run, item) end
  if item.rh then resources.give_back(run, item) end
  claims.count_lapsed(run, item, 1)
  holds.record(run, item, item.expires, true)
  available.note(run, 'freed', item.id)
  if attempt then attempts.judge(run, item) end
  return attempt and WRITES_OF_ATTEMPT or 0
end

-- Puts items of up to `budget` expired claims back. Returns whether none are left.
function claims.expire(run, budget)
  if redis.call('ZCOUNT', run.keys.leases, '-inf', run.now) == 0 then return true end
  local due = redis.call('ZRANGEBYSCORE', run.keys.leases, '-inf', run.now, 'LIMIT', 0, budget)
  local ended, left = {}, SWEEP_WRITES
  for n, id in ipairs(redis.call('HMGET', run.keys.agents, unpack(due))) do
    if left <= blockers.edges_visited(run) then break end
    local item = id and items.load(run, id)
    ended[n], left = due[n], left - WRITES_EACH - (item and #index.scopes_of(item) or 0)
    if item and classes.is_held(item) then left = left - expire(run, item, 'expired') end
  end
  claim_ends.remove(run, unpack(ended))
  return redis.call('ZCOUNT', run.keys.leases, '-inf', run.now) == 0
end

-- Puts an item back whose claim has expired, if nobody has noticed that yet. `taken` = whether another agent claims it.
function claims.notice_expiry(run, item, taken)
  if not classes.is_held(item) or item.expires > run.now then return end
  if item.role == TERMINAL then return claims.finish(run, item) end
  claim_ends.remove(run, item.holder)
  expire(run, item, taken and 'taken_over' or 'expired')
end

-- Removes the claim's record from the item and stores it. Returns whether the caller has to reindex the item.
local function clear(run, item)
  local held = classes.is_held(item)
  if held and item.role ~= TERMINAL then
    holds.record(run, item, math.min(item.expires, run.now), item.expires <= run.now)
    available.note(run, 'freed', item.id)
  end
  item.holder, item.expires, item.claimed_at, item.first_claimed_at = nil, nil, nil, nil
  if not (held or item.ends_claim) then claims.count_lapsed(run, item, -1) end
  item.ends_claim = nil
  local moved = index.change_class(run, item, classes.unclaimed_class(item, item.role))
  if not moved and item.role == REVIEW then abandoned.note(run, item) end -- its lapsed claim is gone
  items.save(run, item, true)
  if item.k then bounds.restore(run, item) end
  if item.rh then resources.give_back(run, item) end
  return moved
end

-- Ends the claim of an item, live or lapsed, without an event.
function claims.finish(run, item)
  agents.set_item(run, item.holder, nil)
  if classes.is_held(item) or item.ends_claim then claim_ends.remove(run, item.holder) end
  if clear(run, item) then index.add(run, item) end
end

-- Removes the records of up to `budget` claims on terminal items whose time is over. Returns whether none are left.
function claims.forget_finished(run, budget)
  local over = claim_ends.finished(run, budget)
  if not over[1] then return true end
  for n, id in ipairs(redis.call('HMGET', run.keys.agents, unpack(over))) do
    local item = id and items.load(run, id)
    if item and item.holder == over[n] then claims.finish(run, item) end
  end
  claim_ends.remove(run, unpack(over)) -- also of what a damaged store has lost
  return #over < budget
end

-- The same as `claims.finish` with its event, and as an attempt if the reason makes it one; reason and detail '' for
-- none. `by` = what ends it in place of the holder, nil: the holder does.
function claims.release(run, item, reason, detail, by)
  claims.notice_expiry(run, item)
  local attempt = classes.is_held(item) and attempts.is_counted(item, reason)
  local told = reason ~= '' and {'r', reason, by and 'b', by} or {}
  item_events.emit(run, 'release', item, 'a', item.holder, 'f', clock.word(item.fence), unpack(told))
  if attempt then attempts.count(run, item, 'released', run.now, reason, detail) end
  claims.finish(run, item)
  if attempt then attempts.judge(run, item) end
end

-- Refreshes a claim that is live and counted as such.
function claims.renew(run, item, ttl_ms)
  local holder, expires = item.holder, run.now + ttl_ms
  item.claimed_at, item.expires = run.now, expires
  claim_ends.note(run, item)
  items.save_record(run, item)
  events.emit(run, 'renew', item.id, 'a', holder, 'f', clock.word(item.fence), 'x', clock.word(expires))
end

-- Records an item as the agent's. Returns its previously claimed one, nil if there is none.
local function change_item_of(run, agent, item)
  local id = agents.item_of(run, agent)
  agents.set_item(run, agent, item.id)
  local earlier = id and items.load(run, id)
  return earlier and earlier.holder == agent and earlier or nil
end

-- Places `agent`'s claim on an item of no held class, and ends the agent's earlier claim. The fence rises; as it is
-- never below the time, it also rises above fences that a restored or promoted server has lost. `selector` = the
-- selector that found the item, nil if the agent named it; `taken` = what it takes of resources, which must be free,
-- nil: nothing. With `unwritten` the caller, which changes the item further, has to index and save it. Returns the
-- claim as replies show it (`Claimed` of store/claims.py).
function claims.acquire(run, item, agent, ttl_ms, selector, taken, unwritten)
  local own, earlier, freed = item.holder == agent, nil, false -- earlier: the item whose claim ends
  local taken_over = item.fence ~= nil and classes.is_left(item, item.role) and not (own and not selector)
  if item.holder then claims.count_lapsed(run, item, -1) end
  if not own then
    if item.holder then agents.set_item(run, item.holder, nil) end
    earlier, item.first_claimed_at = change_item_of(run, agent, item), run.now
  end
  if earlier and earlier.role ~= TERMINAL then claims.notice_expiry(run, earlier) end
  local fence, expires = math.max((item.fence or 0) + 1, run.now), run.now + ttl_ms
  item.fence, item.holder, item.claimed_at, item.expires = fence, agent, run.now, expires
  claim_ends.note(run, item)
  local moved = index.change_class(run, item, item.role * STATES + HELD)
  if taken then resources.take(run, item, taken) end
  if item.rh then items.mark_changed(item, 'rh') end
  -- A caller that names a role knows the role of its item, and the effect of triggers.
  if taken_over and not (selector and selector.role) then items.set(item, 'tk', clock.whole(fence)) end
  if item.ch then children.note_claim(item) end
  if item.u then items.set(item, 'u', nil) end
  if unwritten then items.mark_changed(item, 'score') else items.save(run, item, true) end
  if earlier then freed = clear(run, earlier) end
  index.add_two(run, moved and not unwritten and item or nil, freed and earlier or nil)
  local f, x = clock.word(fence), clock.word(expires)
  if earlier then
    item_events.emit(run, 'claim', item, 'a', agent, 'f', f, 'x', x, 'o', earlier.id, 'p', clock.word(earlier.fence))
  else
    item_events.emit(run, 'claim', item, 'a', agent, 'f', f, 'x', x)
  end
  local further = (selector or taken_over) and {role = item.role, takeover = taken_over or nil} or nil
  return {'success', item.id, expires, item.first_claimed_at, fence, further}
end

return claims
