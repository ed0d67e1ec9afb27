-- @include handoff
-- @include project_name
-- What is in RQ's queues: pointers to steps, jobs made with plain RQ, and ids that can be neither.

local STALE = 100 -- the most useless pointers (to nothing, or not for this worker) that one run throws away

-- The project of the step that a job points to; nil: it is no pointer.
local function project_of(id)
  local project = redis.pcall('HGET', env.rq .. 'job:' .. id, 'fleet')
  return type(project) == 'string' and is_project(project) and project or nil
end

-- Whether it is a job of plain RQ, whose ids have these characters only.
local function is_plain(id)
  return string.match(id, '^[A-Za-z0-9_-]+$') and redis.call('EXISTS', env.rq .. 'job:' .. id) == 1
end

-- Silences a queue's bell, after a worker has looked at every pointer in it.
local function silence_bell(list)
  local bell = env.rq .. 'bell:' .. list
  redis.call('DEL', bell)
  -- Some are left if it stopped at STALE useless ones: then the next worker need not wait for a bell.
  if redis.call('EXISTS', env.rq .. 'queue:' .. list) == 1 then redis.call('RPUSH', bell, 1) end
end
