-- The keys of a partition by the names of their families (keys.py): keys(prefix).item is `fc:{p}:i:`, to be followed by
-- an id. They are made once per partition.
-- owns: none
local families = require 'families'
local remembered = require 'remembered'

local KEPT_MAX = 200

return remembered(KEPT_MAX, function(prefix)
  local found = {prefix = prefix, project = string.sub(prefix, 5, -3)}
  for name, suffix in pairs(prefix == 'fc:{!fleet}:' and families.fleet or families.project) do
    found[name] = prefix .. suffix
  end
  return found
end)
