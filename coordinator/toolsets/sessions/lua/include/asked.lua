-- @include claims
-- Which yield of a checkpoint a caller means. The token shown names the checkpoint, and its `seq` tells whether it
-- was made before or after the checkpoint that waits now was yielded. A token without one (`checkpoint` is '') means
-- the one that waits: the caller is told which, and calls again with the `q` of its handle as `instance`.
-- Agents that have lost the session may still answer what the handles of their time ask, and nothing else.

-- nil if the caller means the checkpoint that waits, else the reply.
local function not_asked(s, checkpoint, instance)
  if (checkpoint == '' or instance ~= '') and superseded(s) then return refuse(s, 'superseded', 'Superseded') end
  if checkpoint == '' then
    if s.b then return reply(s, 'pending', tonumber(s.bq)) end
    return refuse(s, 'none', 'No active checkpoint')
  end
  local meant = s.b == checkpoint
  if meant and instance == '' then meant = tonumber(seq) >= tonumber(s.bq) end
  if meant and instance ~= '' then meant = instance == s.bq end
  if meant then return nil end
  local earlier = redis.call('HGET', K_SESSION_ANSWERS .. sid, act .. '/' .. checkpoint)
  return refuse(s, 'closed', "Checkpoint '" .. checkpoint .. "' is not active", earlier or '')
end
