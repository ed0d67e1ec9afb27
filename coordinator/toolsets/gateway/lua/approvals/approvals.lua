-- Approvals: decisions asked of people. Each is a hash, gate_approval .. id:
--   w instance  n definition  q queue  d '1': the requester must not answer  r requester
--   t asked at  k transition that asks  s status: pending, resolved or withdrawn
--   b who closed it  e closed at  a transition that closed it  v how the answer came, if not by a call of its own
--   m those who were asked and gave no answer, as a JSON list
-- gate_asked has the pending ones, scored by the time they were asked for; gate_answered the others, by that of
-- closing. Of gate_data .. instance: o open approvals  g all approvals (ids, each followed by a blank).
-- owns: gate_data.g gate_data.o gate_approval gate_asked gate_answered
local audit = require 'audit'
local events = require 'events'

local approvals = {}

-- An approval, answered or not, as a row; nil: there is none. See read_approval.lua.
function approvals.row(run, id)
  local instance, definition, queue, distinct, requester, asked_at, transition, status, by, answered_at, answer, via =
    unpack(redis.call('HMGET', run.keys.gate_approval .. id,
      'w', 'n', 'q', 'd', 'r', 't', 'k', 's', 'b', 'e', 'a', 'v'))
  if not instance then return nil end
  return {instance, definition, queue, distinct == '1', requester, tonumber(asked_at), transition, status, by or '',
    tonumber(answered_at or 0), answer or '', via or ''}
end

-- Asks for an approval.
function approvals.ask(run, inst, id, queue, distinct, requester, transition)
  redis.call('HSET', run.keys.gate_approval .. id, 'w', inst.id, 'n', inst.definition, 'q', queue,
    'd', distinct and 1 or 0, 'r', requester, 't', run.at, 'k', transition, 's', 'pending')
  redis.call('ZADD', run.keys.gate_asked, run.at, id)
  events.emit(run, 'gateway_asked', inst.id, 'h', id, 'q', queue)
  local open, all = unpack(redis.call('HMGET', run.keys.gate_data .. inst.id, 'o', 'g'))
  redis.call('HSET', run.keys.gate_data .. inst.id, 'o', (open or '') .. id .. ' ', 'g', (all or '') .. id .. ' ')
end

-- Closes all open approvals of the instance with this status. via: see above, or nil.
function approvals.close(run, inst, status, by, transition, via)
  local open = redis.call('HGET', run.keys.gate_data .. inst.id, 'o') or ''
  for id in string.gmatch(open, '%S+') do
    redis.call('HSET', run.keys.gate_approval .. id, 's', status, 'b', by, 'e', run.at, 'a', transition,
      'v', via or '')
    redis.call('ZREM', run.keys.gate_asked, id)
    redis.call('ZADD', run.keys.gate_answered, run.at, id)
    events.emit(run, 'gateway_answered', inst.id, 'h', id, 's', status, 'g', transition)
  end
  redis.call('HDEL', run.keys.gate_data .. inst.id, 'o')
end

-- Notes that a principal was asked for all open approvals of the instance, and gave no answer.
function approvals.decline(run, workflow, principal)
  for id in string.gmatch(redis.call('HGET', run.keys.gate_data .. workflow, 'o') or '', '%S+') do
    local key, known = run.keys.gate_approval .. id, false
    local declined = cjson.decode(redis.call('HGET', key, 'm') or '[]')
    for _, one in ipairs(declined) do known = known or one == principal end
    if not known then -- the same answer may come again
      declined[#declined + 1] = principal
      redis.call('HSET', key, 'm', cjson.encode(declined))
      audit.add(run, workflow, '', principal, 'human.approval.declined', '{"via":"client"}')
    end
  end
end

-- Deletes the approvals of an instance.
function approvals.forget(run, workflow)
  for id in string.gmatch(redis.call('HGET', run.keys.gate_data .. workflow, 'g') or '', '%S+') do
    redis.call('DEL', run.keys.gate_approval .. id)
    redis.call('ZREM', run.keys.gate_asked, id)
    redis.call('ZREM', run.keys.gate_answered, id)
  end
end

return approvals
