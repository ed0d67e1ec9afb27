-- Keys that are known not to exist: run.absent, {key -> true}. So what a project does not use costs an operation one
-- command, which looks for all of it when the call begins; whoever would read one of these keys asks run.absent first.
-- owns: none
local keys = require 'keys'
local remembered = require 'remembered'

local absence = {}

local KEPT_MAX = 200

-- Keys as what an operation looks for: a list in which each key also leads to true, and `often`, those that may be
-- there every day, and are looked at by themselves then: once, twice, four times, so that their number tells which
-- exist. It is a function of the partition's prefix. A name is that of a family, perhaps with a blank and the rest of
-- the key; `further` and `often` = more names, if given.
function absence.of_keys(names, further, often)
  return remembered(KEPT_MAX, function(prefix)
    local all, set = keys(prefix), {often = {}}
    for _, list in ipairs({names, further or {}, often or {}}) do
      for n, name in ipairs(list) do
        local family, rest = string.match(name, '^(%S+) ?(.*)$')
        local key = all[family] .. rest
        set[#set + 1], set[key] = key, true
        for _ = 1, list == often and 2 ^ (n - 1) or 0 do table.insert(set.often, key) end
      end
    end
    return set
  end)
end

-- Notes that keys may exist.
function absence.forget(run, present)
  local known = {}
  for key in pairs(run.absent) do known[key] = true end
  for _, key in ipairs(present) do known[key] = nil end
  run.absent = known
end

return absence
