-- What an agent works on: the item that it holds and has not finished.
-- owns: none
local agents = require 'agents'
local claims = require 'claims'
local classes = require 'classes'
local index = require 'index'
local items = require 'items'
local obstacles = require 'obstacles'
local requests = require 'requests'
local schemas = require 'schemas'
local triggers = require 'triggers'
local usage = require 'usage'

local QUEUE, REVIEW = classes.QUEUE, classes.REVIEW
local ENDED = {[classes.TERMINAL] = true, [classes.BLOCKED] = true}

local work = {}

-- The item whose live claim an agent has, unless it has ended, is blocked or was passed on to review by the agent; else
-- nil.
function work.held(run, agent)
  local id = agents.item_of(run, agent)
  local item = id and items.load(run, id)
  if not item or item.holder ~= agent or not claims.is_live(run, item) or ENDED[item.role] then return nil end
  if item.role == REVIEW and not classes.is_left(item, REVIEW) then return nil end
  return item
end

-- Renews a live claim, for as long as before or, if that is not 0, for `ttl_ms`; if `most_ms` is not 0, for no longer
-- than that, and it never ends sooner than before.
function work.renew(run, item, ttl_ms, most_ms)
  local ms = ttl_ms > 0 and ttl_ms or item.expires - item.claimed_at
  if most_ms > 0 then ms = math.min(ms, most_ms) end
  if most_ms == 0 or run.now + ms > item.expires then claims.renew(run, item, ms) end
end

-- Starts an item that was not begun under its claim. Returns the entry of the start as advance_item has it; false if
-- there is nothing to start. `author` = {actor, verification}.
function work.begin(run, item, agent, author)
  if item.role ~= QUEUE and tonumber(item.tk) ~= item.fence then return false end
  return triggers.advance(run, item.id, 'start', agent, author[1], author[2], '', item.fence)
end

-- Places a claim as `claims.acquire` does, and starts its item. Returns the claim, and the entry of the start as above.
function work.claim(run, item, agent, ttl_ms, selector, taken, author)
  local is_new = item.role == QUEUE -- then the start writes it
  local claim = claims.acquire(run, item, agent, ttl_ms, selector, taken, is_new)
  local start = work.begin(run, item, agent, author)
  if is_new and start[2] ~= '' then
    index.add(run, item)
    items.save(run, item)
  end
  return claim, start
end

-- Passes an item on that an agent has done: to review where its schema has that, else to its end; starts it first if it
-- was not. `result`, `used` = as `triggers.advance` takes them, that may be false; `keeps` = whether the agent keeps
-- its claim for now: else `claims.release` must follow what is not refused. Returns the entry of the transition, or of
-- the start if that was refused; and the trigger.
function work.pass_on(run, item, agent, author, summary, result, used, keeps)
  local start, schema = work.begin(run, item, agent, author), schemas.of(run, item)
  if start and start[2] ~= '' then return start, 'start' end
  local trigger = schema and schema.review and 'start' or 'complete'
  item.ends_claim = trigger == 'complete' and not keeps or nil
  local entry = triggers.advance(run, item.id, trigger, agent, author[1], author[2], summary, 0, result, used)
  if entry[2] ~= '' then item.ends_claim = nil end
  return entry, trigger
end

-- Places the claim of an agent that has expired again, for a report; not for one that lets the item go. Returns false
-- if it goes on after the report and what it takes of resources is not free.
function work.take_up(run, item, agent, ttl_ms, kind)
  claims.notice_expiry(run, item)
  if kind == 'failed' or kind == 'handed_back' then return true end
  local needs, wait = nil, nil
  if kind == 'note' then needs, wait = obstacles.taken(run, item, agent) end
  if not wait then claims.acquire(run, item, agent, ttl_ms, nil, needs) end
  return not wait
end

-- Adds what was used under a note of the item, unless the same was reported under this claim before; a claim
-- that has ended and was placed again for the same agent is the same. `ends` = the id under which ends of its work are
-- recorded; `said` = as reporting.lua has that of notes.
function work.add_usage(run, request, item, agent, ends, said, used)
  local same = redis.sha1hex(cmsgpack.pack({item.first_claimed_at, said[3], said[2], used}))
  if requests.note_once(run, ends .. item.id .. same, request.keep_ms) then
    usage.add(run, item.id, agent, used)
  end
end

return work
