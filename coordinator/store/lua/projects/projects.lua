-- Names of projects, and the fleet's lists of projects.
-- owns: step_projects item_projects known_projects
local projects = {}

local KNOWN_MAX = 10000

-- Whether this is a valid name of a project; must match PROJECT in keys.py.
function projects.is_project(name)
  return #name <= 63 and string.match(name, '^[a-z0-9][a-z0-9_-]*$') ~= nil
end

-- The list that `what` (steps, items or known) means: projects by when they were last noted, in s.
function projects.list_of(run, what)
  if what == 'known' then return run.keys.known_projects end
  return what == 'steps' and run.keys.step_projects or run.keys.item_projects
end

-- Puts a project on a list.
function projects.note(run, what, project)
  local list = projects.list_of(run, what)
  if redis.call('ZADD', list, math.floor(run.now / 1000), project) == 1 and what == 'known' then
    redis.call('ZREMRANGEBYRANK', list, 0, -KNOWN_MAX - 1)
  end
end

-- Takes a project off a list that was not noted in the last `seconds`. Returns whether it did (1 or 0).
function projects.forget(run, what, project, seconds)
  local list = projects.list_of(run, what)
  local noted = redis.call('ZSCORE', list, project)
  if not noted or tonumber(noted) > run.now / 1000 - seconds then return 0 end
  return redis.call('ZREM', list, project)
end

return projects
