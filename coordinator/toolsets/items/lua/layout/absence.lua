-- Keys that are known not to exist: run.absent, {key -> true}. So what a project does not use costs an operation one
-- command, which looks for all of it when the call begins; whoever would read one of these keys asks run.absent first.
-- owns: none
local keys = require 'keys'
local remembered = require 'remembered'

local absence = {}

local KEPT_MAX = 200

-- The keys of families as what an operation looks for: a list in which each key also leads to true. It is a function of
-- the partition's prefix; `further` = more names, if given.
function absence.of_families(names, further)
  return remembered(KEPT_MAX, function(prefix)
    local all, set = keys(prefix), {}
    for _, list in ipairs({names, further}) do
      for _, name in ipairs(list) do set[#set + 1], set[all[name]] = all[name], true end
    end
    return set
  end)
end

-- Notes that a key may exist.
function absence.forget(run, key)
  local known = {}
  for other in pairs(run.absent) do known[other] = other ~= key or nil end
  run.absent = known
end

return absence
