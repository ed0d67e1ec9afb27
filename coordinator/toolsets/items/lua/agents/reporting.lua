-- What a worker reports of its item: a note, its end, that it failed, a question. An end is recorded for worker and
-- item until the worker claims that again, so a repeated report has no second effect. For reports that do not name the
-- item, it is recorded under `ends` which one the worker has ended last (report_work.lua).
-- owns: none
local agent_drains = require 'agent_drains'
local agents = require 'agents'
local budgets = require 'budgets'
local claims = require 'claims'
local classes = require 'classes'
local items = require 'items'
local notes = require 'notes'
local obstacles = require 'obstacles'
local questions = require 'questions'
local requests = require 'requests'
local schemas = require 'schemas'
local triggers = require 'triggers'
local usage = require 'usage'
local work = require 'work'

local BLOCKED, TERMINAL = classes.BLOCKED, classes.TERMINAL

local reporting = {}

-- Writes a note of the worker. Returns its key; or nil, and why it cannot be written.
local function write(run, item, author, key, said)
  local phase = schemas.phase_of(schemas.of(run, item), item, key)
  local id, reason = notes.write(run, {item.id, key, phase, said[2], said[2] ~= '', author[1], author[2], said[1]})
  return id and key, reason
end

-- What each report does, beside its effect on the claim. Returns the key of its note, why it cannot be written, and the
-- entry of its transition, nil for none.
local reports = {}

function reports.note(run, item, _, author, said)
  return write(run, item, author, said[3], said)
end

function reports.failed() end

function reports.handed_back(run, item, _, author, said)
  if said[2] ~= '' then return (write(run, item, author, 'handed-back', said)) end -- even if there is no room for it
end

function reports.done(run, item, agent, author, said)
  local text, format, summary = said[2], said[3], said[4]
  local over = item.role == TERMINAL -- it has followed its children
  if over and format then return write(run, item, author, notes.RESULT, said) end
  if over then return end
  return nil, nil, (work.pass_on(run, item, agent, author, summary, format and {text, format, said[1], true}))
end

function reports.ask(run, item, agent, author, said)
  local open = item.role ~= TERMINAL and item.role ~= BLOCKED -- else the transition is refused
  local key, problem
  if open then key, problem = write(run, item, author, 'question-' .. questions.count(run, item.id) + 1, said) end
  if problem then return nil, problem end
  return key, nil, triggers.advance(run, item.id, 'block', agent, author[1], author[2], said[3], 0)
end

-- The answer to a worker without a claim on the item: how it has ended its work, if it has lately.
local function without_claim(run, item, id, ends, kind)
  local ended = id ~= '' and redis.call('GET', ends .. id)
  if ended then
    local by, role, key = unpack(cmsgpack.unpack(ended))
    return {by == kind and 'repeated' or 'ended', id, role, by ~= kind and by, false, key}
  end
  if id ~= '' and not item then return {items.absence_reason(id), id, 0, false, false, false} end
  local other = item and item.role ~= TERMINAL and claims.is_live(run, item) and item.holder
  return {other and 'other' or 'none', id, item and item.role or 0, false, false, other or false}
end

-- Takes a report: {agent; id, '' for the item that the agent claimed last; where ends of its work are recorded; author
-- {actor, verification}; kind: note, done, failed, handed_back or ask; said; used, for `usage.add`, or false; fence of
-- the only claim that may report, 0: any of the agent; its longest renewal (ms), 0: as before}. said = {id for a new
-- note, text; then of a note its key, of what is done the format of the text (false: no text) and a summary, of a
-- question its beginning}. Returns Reported (store/agents/take.py).
function reporting.take(run, request, report)
  local agent, id, ends, author, kind, said, used, fence, most_ms = unpack(report)
  local last = run.keys.request .. ends
  if id == '' then id = agents.item_of(run, agent) or redis.call('GET', last) or '' end
  local item = items.load(run, id)
  local lapsed = not (item and claims.is_live(run, item))
  local mine = item and item.holder == agent and (fence == 0 or not lapsed and item.fence == fence)
  local ttl_ms, lets_go = mine and item.expires - item.claimed_at, kind == 'failed' or kind == 'handed_back'
  if mine and lapsed then mine = item.role ~= TERMINAL and work.take_up(run, item, agent, ttl_ms, kind) end
  if not mine then return without_claim(run, item, id, last, kind) end
  local key, problem, entry = reports[kind](run, item, agent, author, said)
  local refused = problem or entry and entry[2] ~= '' and 'refused'
  if (refused or kind == 'note') and not lapsed then work.renew(run, item, ttl_ms, most_ms) end
  if refused and lapsed and not obstacles.hold(run, item) then return without_claim(run, item, id, last, kind) end
  if refused then return {refused, id, item.role, entry or false, notes.schema_inputs(run, item), false} end
  if kind == 'note' then
    work.begin(run, item, agent, author)
    if used then work.add_usage(run, request, item, agent, ends, said, used) end
    return {'done', id, item.role, false, notes.schema_inputs(run, item), key,
      agent_drains.of(run, agent) or '', budgets.against(run, id, agent) or false}
  end
  if used then usage.add(run, id, agent, used) end
  if kind == 'ask' then questions.add(run, item) end
  claims.release(run, item, lets_go and not lapsed and kind or '', kind == 'failed' and said[2] or '')
  requests.keep(run, ends .. id, request.keep_ms, cmsgpack.pack({kind, item.role, key or false}))
  return {'done', id, item.role, false, false, key or false}
end

return reporting
