-- @include instance
-- Approvals: what people are asked for. Each is a hash, K_GATE_APPROVAL .. id:
--   w instance  n definition  q queue  d '1': somebody else than the requester has to answer  r requester
--   t asked at  k transition that asks  s status: pending, resolved or withdrawn
--   b who closed it  e closed at  a transition that closed it
-- K_GATE_ASKED has those that are pending, by when they were asked for.

-- Asks for an approval.
local function ask(inst, id, queue, distinct, requester, transition)
  redis.call('HSET', K_GATE_APPROVAL .. id, 'w', inst.id, 'n', inst.definition, 'q', queue, 'd', distinct and 1 or 0,
    'r', requester, 't', at, 'k', transition, 's', 'pending')
  redis.call('ZADD', K_GATE_ASKED, at, id)
  local open, all = unpack(redis.call('HMGET', K_GATE_DATA .. inst.id, 'o', 'g'))
  redis.call('HSET', K_GATE_DATA .. inst.id, 'o', (open or '') .. id .. ' ', 'g', (all or '') .. id .. ' ')
end

-- Closes all that the instance has open, under this status.
local function close_approvals(inst, status, by, transition)
  local open = redis.call('HGET', K_GATE_DATA .. inst.id, 'o') or ''
  for id in string.gmatch(open, '%S+') do
    redis.call('HSET', K_GATE_APPROVAL .. id, 's', status, 'b', by, 'e', at, 'a', transition)
    redis.call('ZREM', K_GATE_ASKED, id)
  end
  redis.call('HDEL', K_GATE_DATA .. inst.id, 'o')
end
