-- @include handoff
-- @include project_name
-- What is found in RQ's queues: pointers to steps, jobs that somebody made with plain RQ, and what neither could be.

local STALE = 100 -- pointers to nothing, or to what is not for this worker, that one run throws away at most

-- The project of the step that a job points to; nil: it is no pointer.
local function project_of(id)
  local project = redis.pcall('HGET', env.rq .. 'job:' .. id, 'fleet')
  return type(project) == 'string' and is_project(project) and project or nil
end

-- Whether it is a job of plain RQ: RQ makes no other ids.
local function is_plain(id)
  return string.match(id, '^[A-Za-z0-9_-]+$') and redis.call('EXISTS', env.rq .. 'job:' .. id) == 1
end

-- Stills a queue's bell: somebody has looked at all that was there.
local function still(list)
  local bell = env.rq .. 'bell:' .. list
  redis.call('DEL', bell)
  -- No more pointers could be thrown away in one run: what is behind them has nobody wait for the next look.
  if redis.call('EXISTS', env.rq .. 'queue:' .. list) == 1 then redis.call('RPUSH', bell, 1) end
end
