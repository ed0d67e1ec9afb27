-- What is in RQ's queues: pointers to steps, jobs made with plain RQ, and ids that can be neither.
-- owns: rq
local projects = require 'projects'

local pointers = {}

-- How many useless pointers (to nothing, or not for this worker) one call discards at most.
pointers.USELESS_MAX = 100

local OWN_PREFIX = 'fleet-steps.at.' -- must match own_queue in handoff.py
local OWN_MS = 60000

-- Whether a list is that of a single worker. If so, these keys go when nobody has used them for a while: the worker may
-- be gone, and its steps go back to their pools.
function pointers.own(list, ...)
  if string.sub(list, 1, #OWN_PREFIX) ~= OWN_PREFIX then return false end
  for _, key in ipairs({...}) do redis.call('PEXPIRE', key, OWN_MS) end
  return true
end

-- The project of the step that a job points to; nil: it is no pointer.
function pointers.project_of(run, id)
  local project = redis.pcall('HGET', run.env.rq .. 'job:' .. id, 'fleet')
  return type(project) == 'string' and projects.is_project(project) and project or nil
end

-- Whether it is a job of plain RQ, whose ids have these characters only.
function pointers.is_plain(run, id)
  return string.match(id, '^[A-Za-z0-9_-]+$') and redis.call('EXISTS', run.env.rq .. 'job:' .. id) == 1
end

-- Silences a queue's bell, after a worker has looked at every pointer in it.
function pointers.silence_bell(run, list)
  local bell = run.env.rq .. 'bell:' .. list
  redis.call('DEL', bell)
  -- Some are left if it stopped at USELESS_MAX: then the next worker need not wait for a bell.
  if redis.call('EXISTS', run.env.rq .. 'queue:' .. list) == 1 then
    redis.call('RPUSH', bell, 1)
    pointers.own(list, bell)
  end
end

return pointers
