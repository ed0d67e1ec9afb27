-- Names of projects, and the fleet's lists of projects.
local projects = {}

-- Whether this is a valid name of a project; must match PROJECT in keys.py.
function projects.is_project(name)
  return #name <= 63 and string.match(name, '^[a-z0-9][a-z0-9_-]*$') ~= nil
end

-- The list that `what` (steps, items or known) means: projects by when they were last noted, in s.
function projects.list_of(run, what)
  if what == 'known' then return run.keys.known_projects end
  return what == 'steps' and run.keys.step_projects or run.keys.item_projects
end

return projects
