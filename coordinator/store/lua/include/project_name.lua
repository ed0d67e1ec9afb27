-- Whether a project could have this name; ``PROJECT`` in keys.py says the same.
local function is_project(name)
  return #name <= 63 and string.match(name, '^[a-z0-9][a-z0-9_-]*$') ~= nil
end
